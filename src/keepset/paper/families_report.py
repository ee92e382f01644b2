"""Two disjoint chains: what the paper's labels cover, what families cover, and what the searches cost."""

from keepset.paper.labels_report import interval, with_paper
from keepset.paper.result import RunResult
from keepset.paper.table import Table

PAPER_REDUNDANT = {
    0: ("1.00", "0.003", "0.000", "0.007", "1.17", "0.27"),
    1: ("0.99", "0.000", "0.000", "0.037", "1.07", "0.33"),
    2: ("1.00", "0.007", "0.000", "0.063", "0.98", "0.36"),
    4: ("0.82", "0.067", "0.110", "0.270", "1.19", "0.29"),
}
"""Dense; cover by floored, greedy, attention; singletons in and off chain. Seed 3 never learned chains."""


def redundant_table(results: list[RunResult]) -> Table:
    """Two disjoint chains: what the paper's labels cover, and what families cover."""
    rows = []
    for result in by_teacher(results):
        config = result.config
        paper = PAPER_REDUNDANT.get(config["seed"], ("",) * 6) if config["mixture"] == "five-task" else ("",) * 6
        names = ("dense", "floored_cover", "greedy_cover", "attention_cover")
        cells = [with_paper(result.metric(name).value, known) for name, known in zip(names, paper, strict=False)]
        rows.append(
            (
                f"{config['mixture']} {config['seed']}",
                *cells,
                *(interval(result, f"{search}_family_cover") for search in ("masked", "nonce", "confirmed")),
                f"{result.metric('confirmed_family_size').value:.1f}",
                with_paper(result.metric("singletons_in_chain").value, paper[4]),
                with_paper(result.metric("singletons_off_chain").value, paper[5]),
            )
        )
    first = results[0].counts
    return Table(
        name="tab-redundant",
        caption=(
            "Two disjoint chains to one answer, either sufficient: share of examples whose label holds a whole chain "
            "(the paper's in brackets, at 32 blocks). Ours: the union of the minimal sufficient sets found under the "
            "mask, under nonce records, and of those that hold among other nonces, with its size."
        ),
        columns=(
            "Teacher",
            "dense",
            "floored",
            "greedy",
            "attention",
            "ours, mask",
            "ours, nonce",
            "ours, confirmed",
            "size",
            "singletons in chain",
            "off chain",
        ),
        rows=tuple(rows),
        notes=(
            f"n = {first['examples']}; greedy and ours on the first {first['searched']}, where the teacher answers.",
        ),
    )


def families_table(results: list[RunResult]) -> Table:
    """What the searches for families found, and what they cost."""
    rows = []
    for result in by_teacher(results):
        for operator in ("masked", "nonce", "confirmed"):
            rows.append(
                (
                    f"{result.config['mixture']} {result.config['seed']}",
                    operator,
                    *(
                        interval(result, f"{operator}_{name}")
                        for name in ("cover", "family_cover", "chain_found", "both_chains_found", "exact_union")
                    ),
                    f"{result.metric(f'{operator}_label_size').value:.1f}",
                    f"{result.metric(f'{operator}_family_size').value:.1f}",
                    f"{result.metric(f'{operator}_sets').value:.1f}",
                    f"{result.metric(f'{operator}_probes').value:.0f}",
                    f"{result.metric(f'{operator}_tokens').value:,.0f}",
                    str(result.metric(f"{operator}_cover").n),
                )
            )
        rows.append(())
    return Table(
        name="families",
        caption=(
            "Families of two disjoint chains. Cover: the union of the smallest sets found holds a whole chain; all: "
            "the union of all sets does. A chain, both: a chain, both chains are among the sets. Exact: the union of "
            "the smallest sets is the six chain blocks. Sizes: blocks of the two unions."
        ),
        columns=(
            "Teacher",
            "search",
            "cover",
            "cover, all",
            "a chain",
            "both chains",
            "exact",
            "size",
            "size, all",
            "sets",
            "probes",
            "tokens",
            "n",
        ),
        rows=tuple(rows[:-1]),
    )


def by_teacher(results: list[RunResult]) -> list[RunResult]:
    return sorted(results, key=lambda result: (result.config["mixture"], result.config["seed"]))
