"""What labels cost: the paper's forwards against the engine's, and two other tools. What routers cost."""

from keepset.paper.result import RunResult
from keepset.paper.table import Table

MODES = ("exact", "grouped", "certified")
EVIDENCE = "evidence"
SIDES = {
    "attribution": "keepset, every block alone",
    "evidence": "keepset evidence set",
    "exact": "keepset exact",
    "grouped": "keepset grouped",
    "certified": "keepset certified",
    "captum": "Captum FeatureAblation",
    "contextcite": "ContextCite, 64 ablations",
}
PEERS = ("captum", "contextcite")
ROUTER_SIDES = {"pooling": "pooling router", "chain": "chain router", "teacher": "teacher"}


def engine_table(results: list[RunResult]) -> Table:
    """One row per subject, length and mode: how many times the reference costs, and whether the labels agree."""
    rows: list[tuple[str, ...]] = []
    for result in in_order(results):
        if rows:
            rows.append(())
        config = result.config
        for mode in (*MODES, EVIDENCE):
            same = result.metric(f"{mode}_same_set")
            rows.append(
                (
                    config["subject"],
                    str(config["n_blocks"]),
                    mode,
                    str(result.counts["examples"]),
                    seconds(result.metric("clean_seconds").value),
                    seconds(result.metric("reference_seconds").value),
                    seconds(result.metric(f"{mode}_seconds").value),
                    times(result, "reference", mode, "seconds"),
                    times(result, "reference", mode, "tokens"),
                    f"{result.metric('same_labels').value:.2f}" if mode == "exact" else f"{same.value:.2f}",
                    f"{result.metric(f'{mode}_same_necessary').value:.2f}" if mode in MODES else "",
                    f"{result.metric(f'{mode}_annotated_set').value:.2f}" if mode in MODES else "",
                )
            )
    return Table(
        name="engine",
        caption=(
            "Cost of the labels of one example (both directions: every block hidden, every block alone), as "
            "a multiple: reference over mode, median over units of examples, quartiles in brackets. "
            "Teachers: unique retrieval. Records: unique retrieval in natural language, forced choice of four."
        ),
        columns=(
            "Subject",
            "N",
            "mode",
            "n",
            "clean, s",
            "reference, s",
            "mode, s",
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
            "the same log-probability to a thousandth of a nat; for the other modes, the share of examples with "
            "exact's evidence set. Evidence: only that set, so leave-one-out runs where no block is enough alone. "
            "Same flips: exact's necessary blocks. Annotated set: the evidence set is the annotated one.",
            *(sampled(result) for result in in_order(results) if result.config["reference_rows"]),
        ),
    )


def peers_table(results: list[RunResult]) -> Table:
    """One row per length and tool, on the records that all of them explained."""
    rows: list[tuple[str, ...]] = []
    batch_sizes = {}
    for result in in_order(results):
        if not result.config["peer_units"]:
            continue
        if rows:
            rows.append(())
        tried = result.config["contextcite_batch_seconds"]
        batch_sizes[result.config["n_blocks"]] = min(tried, key=lambda size: float(tried[size]))
        for side, label in SIDES.items():
            names = {metric.name for metric in result.metrics}
            found = result.metric(f"{side}_found") if f"{side}_found" in names else None
            rows.append(
                (
                    str(result.config["n_blocks"]),
                    label,
                    seconds(result.metric(f"{side}_seconds").value),
                    f"{result.metric(f'{side}_tokens').value:,.0f}",
                    *(times(result, peer, side, "seconds") if side not in PEERS else "" for peer in PEERS),
                    f"{found.value:.2f} of {found.n}" if found else "",
                )
            )
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


def router_table(results: list[RunResult]) -> Table:
    """One row per side and length: a forward, its share of the teacher's, and how it grows."""
    (result,) = results
    lengths = result.config["n_blocks"]
    rows: list[tuple[str, ...]] = []
    for side, label in ROUTER_SIDES.items():
        if rows:
            rows.append(())
        for n in lengths:
            rows.append(
                (
                    label,
                    f"{result.counts[f'{side}_parameters']:,}",
                    str(n),
                    quartiles(result, f"{side}_n{n}_seconds", 1e3, 2),
                    quartiles(result, f"{side}_n{n}_share", 1e2, 2) if side != "teacher" else "",
                    quartiles(result, f"{side}_growth", 1, 1) if n == lengths[-1] else "",
                )
            )
    return Table(
        name="router-bench",
        caption=(
            f"A forward of each router and of the teacher on the same {result.config['batch']} contexts, as they grow "
            f"from {lengths[0]} to {lengths[-1]} blocks: median over rounds, quartiles in brackets. The paper: under "
            "0.3 ms and flat from 32 to 128 blocks, on a GPU, which such a small network does not fill; one CPU "
            "thread pays for every block."
        ),
        columns=("Side", "Parameters", "N", "ms", "share of the teacher's, %", f"N = {lengths[-1]} over {lengths[0]}"),
        rows=tuple(rows),
        notes=(
            f"Small scale; {result.counts['rounds']} rounds in one run, every side at every length in every round, in "
            "rotating order; CPU milliseconds of one thread. The paper's routers have 23K and 111K parameters, for a "
            "larger vocabulary.",
        ),
    )


def quartiles(result: RunResult, name: str, factor: float, digits: int) -> str:
    middle, low, high = (result.metric(name + end).value * factor for end in ("", "_q25", "_q75"))
    return f"{middle:.{digits}f} ({low:.{digits}f}–{high:.{digits}f})"


def in_order(results: list[RunResult]) -> list[RunResult]:
    """Teachers first, then by length."""
    return sorted(results, key=lambda result: (result.config["subject"] != "teacher", result.config["n_blocks"]))


def times(result: RunResult, slow: str, quick: str, what: str) -> str:
    name = f"{slow}_over_{quick}_{what}"
    middle, low, high = (result.metric(name + end).value for end in ("", "_q25", "_q75"))
    return f"{middle:.1f} ({low:.1f}–{high:.1f})"


def seconds(value: float) -> str:
    """Three digits that matter."""
    return f"{value:.3f}" if value < 1 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def sampled(result: RunResult) -> str:
    config = result.config
    return (
        f"{config['subject']}, N = {config['n_blocks']}: the reference ran {config['reference_rows']} of its "
        f"{2 * config['n_blocks'] + 1} rows per example, drawn at random; all rows have the same shape, so its cost is "
        "scaled to all of them, and the comparison of labels covers those rows."
    )
