"""keepset beside one tool after another, on the questions that both were asked."""

from keepset.paper.evidence.run import SQUAD
from keepset.paper.evidence.tables import COMPARED, KEEPSET, RULE, Pool, label, models
from keepset.paper.results import Results
from keepset.paper.statistics import sign_test
from keepset.paper.table import Table

PAIRED = tuple(f"{words}: {what}" for words in ("gold first", "exactly gold") for what in ("tool, keepset", "alone, p"))


def paired_table(results: Results) -> Table:
    """keepset beside one tool after another, each time on all questions that both were asked."""
    rows: list[tuple[str, ...]] = []
    for model in models(results):
        ours = Pool(results, model, SQUAD, KEEPSET)
        found = [
            (model, label(tool), *beside(ours, theirs))
            for tool in COMPARED
            if tool != KEEPSET and (theirs := Pool(results, model, SQUAD, tool, only=ours.parts))
        ]
        rows += [(), *found] if rows and found else found
    return Table(
        name="evidence-squad-paired",
        caption=(
            f"{KEEPSET} beside each other tool on the questions that both were asked (SQuAD dev, evidence-squad): the "
            "tool's number, keepset's, and on how many questions the tool alone and keepset alone are right. p: exact "
            "sign test on these, two-sided."
        ),
        columns=("Model", "Tool", "n", *PAIRED, "CPU s: tool, keepset"),
        rows=tuple(rows),
        notes=(RULE,),
    )


def beside(ours: Pool, theirs: Pool) -> tuple[str, ...]:
    """The cells of one tool."""
    cells = [str(theirs.share("first").n)]
    for what in ("first", "exactly"):
        pools = (theirs.share(what), ours.share(what, theirs.parts))
        pairs = list(zip(*(pool.each or "" for pool in pools), strict=True))
        wins, losses = pairs.count(("1", "0")), pairs.count(("0", "1"))
        cells += [", ".join(f"{pool.value:.2f}" for pool in pools), f"{wins}, {losses}; {sign_test(wins, losses):.2g}"]
    costed = set(theirs.parts_with("seconds")) & set(ours.parts_with("seconds"))
    seconds = (pool.cost("seconds", costed) for pool in (theirs, ours))  # read only where there are any
    return *cells, ", ".join(f"{mean.value:.1f}" for mean in seconds) if costed else ""
