"""What labels cost: the paper's forwards against the engine's, and two other tools."""

from keepset.paper.bench.engine.tally import ATTRIBUTION, EFFORTS, EVIDENCE, PEERS
from keepset.paper.bench.timing import MEDIAN, bracketed, shown_seconds
from keepset.paper.result import RunResult
from keepset.paper.results import Results
from keepset.paper.table import Table

SIDES = {
    ATTRIBUTION: "keepset, every block alone",
    EVIDENCE: "keepset evidence set",
    "exact": "keepset exact",
    "grouped": "keepset grouped",
    "certified": "keepset certified",
    "captum": "Captum FeatureAblation",
    "contextcite": "ContextCite, 64 ablations",
}


def engine_table(results: Results) -> Table:
    """One row per subject, length and effort: how many times the reference costs, and whether the labels agree."""
    rows: list[tuple[str, ...]] = []
    for run in in_order(results):
        if rows:
            rows.append(())
        rows += [effort_row(results, run, effort) for effort in (*EFFORTS, EVIDENCE)]
    return Table(
        name="engine",
        caption=(
            "Cost of the labels of one example (both directions: every block hidden, every block alone), as "
            "a multiple: reference over effort, median over units of examples, quartiles in brackets. "
            "Teachers: unique retrieval. Records: unique retrieval in natural language, forced choice of four."
        ),
        columns=(
            "Subject",
            "N",
            "effort",
            "n",
            "clean, s",
            "reference, s",
            "effort, s",
            "seconds ×",
            "tokens ×",
            "same set",
            "same flips",
            "annotated set",
        ),
        rows=tuple(rows),
        notes=(
            "Seconds are CPU seconds of one thread per example; clean is one forward of the whole context.",
            "Same set: for exact, the share of units on which every row the reference ran gives the same answer and "
            "the same log-probability to a thousandth of a nat; for the other efforts, the share of examples with "
            "exact's evidence set. Evidence: only that set, so leave-one-out runs where no block is enough alone. "
            "Same flips: exact's necessary blocks. Annotated set: the evidence set is the annotated one.",
            *(sampled(run) for run in in_order(results) if run.config["reference_rows"]),
        ),
    )


def effort_row(results: Results, run: RunResult, effort: str) -> tuple[str, ...]:
    def share(what: str, **side: str) -> str:
        return f"{results.value(what, **run.at, **side):.2f}"

    return (
        run.config["subject"],
        str(run.config["n_blocks"]),
        effort,
        str(run.counts["examples"]),
        *(spent(results, run, side) for side in ("clean", "reference", effort)),
        *(
            bracketed(results, f"{what}_times", 1, **run.at, side=effort, against="reference")
            for what in ("seconds", "tokens")
        ),
        share("same_labels") if effort == "exact" else share("same_set", side=effort),
        *(share(what, side=effort) if effort in EFFORTS else "" for what in ("same_necessary", "annotated_set")),
    )


def peers_table(results: Results) -> Table:
    """One row per length and tool, on the records that all of them explained."""
    rows: list[tuple[str, ...]] = []
    batch_sizes = {}
    for run in in_order(results):
        if not run.config["peer_units"]:
            continue
        if rows:
            rows.append(())
        tried = run.config["contextcite_batch_seconds"]
        batch_sizes[run.config["n_blocks"]] = min(tried, key=lambda size: float(tried[size]))
        rows += [peer_row(results, run, side) for side in SIDES]
    sizes = ", ".join(f"{size} at N = {n}" for n, size in batch_sizes.items())
    return Table(
        name="engine-peers",
        caption=(
            "Which record did the answer come from? Records, unique retrieval, the same examples and the same answer "
            "tokens for every tool. Found: the true record alone has the highest score."
        ),
        columns=("N", "tool", "seconds", "tokens", "Captum costs ×", "ContextCite costs ×", "found"),
        rows=tuple(rows),
        notes=(
            "CPU seconds of one thread per example, medians. The first row answers what the other tools answer, which "
            "record the answer comes from: the one that, alone, makes it most likely.",
            f"Captum takes one variant per forward. ContextCite at its fastest batch size: {sizes}.",
        ),
    )


def peer_row(results: Results, run: RunResult, side: str) -> tuple[str, ...]:
    costs = (
        bracketed(results, "seconds_times", 1, **run.at, side=side, against=peer) if side not in PEERS else ""
        for peer in PEERS
    )
    found = ""
    if side != EVIDENCE:  # a set has no highest score
        metric = results.metric("found", **run.at, side=side)
        found = f"{metric.value:.2f} of {metric.n}"
    tokens = results.value("tokens", **run.at, side=side, quantile=MEDIAN)
    return (str(run.config["n_blocks"]), SIDES[side], spent(results, run, side), f"{tokens:,.0f}", *costs, found)


def in_order(results: Results) -> list[RunResult]:
    """Teachers first, then by length."""
    return sorted(results.runs.values(), key=lambda run: (run.config["subject"] != "teacher", run.config["n_blocks"]))


def spent(results: Results, run: RunResult, side: str) -> str:
    return shown_seconds(results.value("seconds", **run.at, side=side, quantile=MEDIAN))


def sampled(run: RunResult) -> str:
    config = run.config
    return (
        f"{config['subject']}, N = {config['n_blocks']}: the reference ran {config['reference_rows']} of its "
        f"{2 * config['n_blocks'] + 1} rows per example, drawn at random; all rows have the same shape, so its cost is "
        "scaled to all of them, and the comparison of labels covers those rows."
    )
