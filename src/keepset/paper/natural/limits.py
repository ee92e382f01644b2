"""What limits the router where nobody has asked, as tables: papers to learn from, the layer, and what others asked."""

from keepset.paper.natural.corpus import CUTS
from keepset.paper.natural.measure import BUDGETS
from keepset.paper.natural.others import BOTH, OTHERS, QUARTER, RANDOM, SAME, WORDS
from keepset.paper.natural.papers import SHARES
from keepset.paper.natural.tables import TITLES
from keepset.paper.results import Results
from keepset.paper.table import Table, with_interval

WAYS = {
    OTHERS: "evidence of the other questions",
    BOTH: "the same first, then words",
    WORDS: "words, logistic regression",
    RANDOM: "random",
}
ROUTERS = {
    "router": "words and states",
    "lexical": "words, heading and place alone",
    "short": "the shortest first",
    "random": "random",
}


def limits_table(results: Results) -> Table:
    """Recall of evidence paragraphs, everything but one thing alike."""
    rows = [*paper_rows(results), *layer_rows(results)]
    return Table(
        name="natural-limits",
        caption=(
            "QASPER paragraphs, question not known: evidence kept in 10, 25 and 50 % of the words, by how many papers "
            "were learned from and by the layer that is read. 95 % bootstrap interval over papers."
        ),
        columns=("", "10 %", "25 %", "50 %", "n"),
        rows=tuple(rows),
        notes=(*paper_note(results), *layer_note(results)),
    )


def paper_rows(results: Results) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for scorer, title in ROUTERS.items():
        for share in SHARES:
            if results.select("recall", kind="papers", share=share, scorer=scorer).empty:
                continue
            papers = results.run(kind="papers", share=share).at["training_papers"]
            found = [
                results.metric("recall", kind="papers", share=share, scorer=scorer, budget=budget) for budget in BUDGETS
            ]
            rows.append((f"{papers} papers: {title}", *map(with_interval, found), f"{found[0].n:,}"))
    return rows


def paper_note(results: Results) -> tuple[str, ...]:
    if results.select("recall", kind="papers").empty:
        return ()
    run = results.run(kind="papers", share=SHARES[-1])
    return (
        f"Papers: {run.counts['papers']} that are not held out, the shorter ones, each scored by a fit on others "
        f"({run.config['folds']} folds). The router that ships has also learned from SQuAD articles and from the words "
        "of longer papers.",
    )


def layer_rows(results: Results) -> list[tuple[str, ...]]:
    if results.select("recall", kind="layers").empty:
        return []
    rows: list[tuple[str, ...]] = [()]
    for layer in results.coordinates("layer", "recall"):
        found = [results.metric("recall", kind="layers", layer=layer, budget=budget) for budget in BUDGETS]
        rows.append((f"layer {layer} alone", *map(with_interval, found), f"{found[0].n:,}"))
    return rows


def layer_note(results: Results) -> tuple[str, ...]:
    if results.select("recall", kind="layers").empty:
        return ()
    run = results.run(kind="layers")
    return (
        f"Layers: logistic regression on mean and maximum of one layer of {run.config['reader']}, no words; "
        f"{run.counts['papers']} of these papers, each scored by a fit on the others ({run.config['folds']} folds).",
    )


def others_table(results: Results) -> Table:
    """Evidence of one question, found by what was asked besides."""
    run = results.run(kind="others")
    rows: list[tuple[str, ...]] = []
    for room, ways in ((SAME, (OTHERS, WORDS, RANDOM)), ("a quarter", (BOTH, WORDS, RANDOM))):
        rows += [()] if rows else []
        for way in ways:
            found = results.metric("others", room=room, way=way)
            rows.append((ROOMS[room], WAYS[way], with_interval(found), f"{found.n:,}"))
    taken = results.metric("others", room="words taken")
    return Table(
        name="natural-others",
        caption=(
            "QASPER paragraphs: how much of the evidence of a question is found by one who has not seen it but knows "
            "what was asked of the paper besides. 95 % bootstrap interval over papers."
        ),
        columns=("Words kept", "Kept first", "Evidence kept", "n"),
        rows=tuple(rows),
        notes=(
            f"{run.counts['questions']} questions about {run.counts['papers']} held-out papers that have two or more "
            f"of them; the evidence of the other questions takes {with_interval(taken)} of a paper's words.",
        ),
    )


def granularity_table(results: Results) -> Table:
    """Answering sentences kept, by what is cut."""
    run = results.run(kind="granularity")
    rows: list[tuple[str, ...]] = []
    for scorer in results.coordinates("scorer", "answering_sentences"):
        rows += [()] if rows else []
        for blocks in CUTS:
            found = [
                results.metric("answering_sentences", blocks=blocks, scorer=scorer, budget=budget) for budget in BUDGETS
            ]
            rows.append((f"{blocks}s", TITLES[scorer], *map(with_interval, found), f"{found[0].n:,}"))
    return Table(
        name="natural-granularity",
        caption=(
            "QASPER, question not known: sentences of evidence that hold an extractive answer, kept in 10, 25 and 50 % "
            "of the words, where whole paragraphs or single sentences are chosen. 95 % bootstrap interval over papers."
        ),
        columns=("Blocks", "Scorer", "10 %", "25 %", "50 %", "n"),
        rows=tuple(rows),
        notes=(f"{run.counts['papers']} held-out papers.",),
    )


ROOMS = {SAME: "as many as the others' evidence", "a quarter": f"{QUARTER:.0%}"}
