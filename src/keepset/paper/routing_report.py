"""Routed accuracy of single-record tasks: ``tab:routing``, ``tab:app-routing``, own teacher, transfer, figures."""

from statistics import fmean, pstdev

from keepset.figures import COLOURS, new_figure, svg
from keepset.paper.result import RunResult
from keepset.paper.statistics import PairedDifference, paired_difference
from keepset.paper.table import Table

CONDITIONS = {
    "unique": "Unique retrieval",
    "latest_write": "Latest write",
    "duplicate": "Duplicate evidence",
    "latest_write_stale4": "Latest write, stale-4",
    "unique_family": "Unique, family distractors",
    "unique_2x": "Unique, 2× length",
    "latest_write_2x": "Latest, 2× length",
    "unique_4x": "Unique, 4× length",
    "latest_write_4x": "Latest, 4× length",
}
PAPER = {
    "unique": ("0.93", "0.96", "0.99", "+0.028"),
    "latest_write": ("0.97", "0.93", "0.93", "0"),
    "duplicate": ("0.99", "0.99", "1.00", "+0.004"),
    "latest_write_stale4": ("0.96", "0.93", "0.93", "-0.001"),
    "unique_family": ("0.94", "0.97", "0.99", "+0.022"),
    "unique_2x": ("0.78", "0.89", "0.94", "+0.047"),
    "latest_write_2x": ("0.74", "0.90", "0.90", "-0.000"),
    "unique_4x": ("0.32", "0.62", "0.73", "+0.110"),
    "latest_write_4x": ("0.42", "0.77", "0.80", "+0.029"),
}
"""Dense, imitation, causal, difference."""
PAPER_OWN = {
    "unique": "+0.051",
    "latest_write": "+0.004",
    "duplicate": "+0.009",
    "latest_write_stale4": "+0.004",
    "unique_family": "+0.046",
    "unique_2x": "+0.076",
    "latest_write_2x": "+0.026",
    "unique_4x": "+0.146",
    "latest_write_4x": "+0.064",
}
ARMS = ("imitation", "causal")
UNROUTED = ("dense", "random")
"""Arms without a router, so without router seeds."""
FIGURE_ARMS = {
    "dense": ("dense", "dense", "other", "s"),
    "imitation": ("imitation", "attention", "attention", "o"),
    "causal": ("causal", "causal", "causal", "D"),
    "random": ("random gates", "random", "other", "x"),
}
"""Arm -> title, its name in the chain results, colour, marker."""


def routing_table(results: list[RunResult]) -> Table:
    """Labels of teacher 0: mean over teachers and router seeds, causal minus imitation paired over teachers."""
    result = from_source(results, 0)
    rows = []
    for condition, title in CONDITIONS.items():
        dense, imitation, causal, difference = PAPER[condition]
        gap = paired_gap(result, condition)
        rows.append(
            (
                title,
                f"{over_teachers(result, 'dense', condition):.2f} ({dense})",
                f"{over_teachers(result, 'imitation', condition):.3f} ({imitation})",
                f"{over_teachers(result, 'causal', condition):.3f} ({causal})",
                f"{signed(gap)} ({difference})",
                f"{gap.p_value:.3f}",
                f"{over_teachers(result, 'random', condition):.2f}",
            )
        )
    return Table(
        name="tab-routing",
        caption=(
            "Single-record routed accuracy at the 10 % block budget: pooling routers trained on the labels of teacher "
            "0, mean over five teachers and five router seeds (the paper's in brackets). Difference: causal minus "
            "imitation, paired over teachers, ± standard error; p: paired t-test."
        ),
        columns=("Condition", "Dense", "Imitation", "Causal", "Difference", "p", "Random"),
        rows=tuple(rows),
        notes=(counts(result),),
    )


def per_teacher_table(results: list[RunResult]) -> Table:
    """``tab:app-routing``: every arm on every teacher."""
    result = from_source(results, 0)
    teachers = result.config["teachers"]
    rows: list[tuple[str, ...]] = []
    for condition in CONDITIONS:
        for arm in ("dense", *ARMS, "random"):
            values = [on_teacher(result, arm, condition, teacher) for teacher in teachers]
            rows.append((condition, arm, *(f"{value:.2f}" for value in values)))
        rows.append(())
    return Table(
        name="tab-app-routing",
        caption="Routed accuracy per teacher at the 10 % budget, labels of teacher 0, mean over router seeds.",
        columns=("Condition", "Arm", *(f"seed {teacher}" for teacher in teachers)),
        rows=tuple(rows[:-1]),
        notes=(counts(result),),
    )


def own_teacher_table(results: list[RunResult]) -> Table:
    """``tab:app-own-teacher``: routers trained on the teacher they route."""
    rows = []
    sources = {result.config["source"]: result for result in results}
    for condition, title in CONDITIONS.items():
        own = {arm: [on_teacher(r, arm, condition, source) for source, r in sources.items()] for arm in ARMS}
        gap = paired_difference(own["causal"], own["imitation"])
        first = paired_gap(from_source(results, 0), condition)
        rows.append(
            (
                title,
                f"{signed(first)} ({PAPER[condition][3]})",
                f"{fmean(own['imitation']):.3f}",
                f"{fmean(own['causal']):.3f}",
                f"{signed(gap)} ({PAPER_OWN[condition]})",
            )
        )
    return Table(
        name="tab-app-own-teacher",
        caption=(
            "Each arm trained on the teacher it routes, beside the protocol of tab-routing. Difference: causal minus "
            "imitation, paired within teachers, ± standard error (the paper's in brackets)."
        ),
        columns=("Condition", "Difference, labels of teacher 0", "Imitation, own", "Causal, own", "Difference, own"),
        rows=tuple(rows),
        notes=(counts(results[0]),),
    )


def transfer_table(results: list[RunResult]) -> Table:
    """``tab:app-transfer``: does the source of the labels matter more than the router's initialization?"""
    rows = []
    for condition, title in CONDITIONS.items():
        cells: list[str] = []
        for arm in ARMS:
            own, other = transferred(results, arm, condition)
            cells += [f"{own:.3f}", f"{other:.3f}"]
            cells += [f"{value:.4f}" for value in spreads(results, arm, condition)]
        rows.append((title, *cells))
    return Table(
        name="tab-app-transfer",
        caption=(
            "Every source of labels on every teacher. Own: source and destination are one teacher; other: they are "
            "not. Source: standard deviation of a destination's score over sources; seed: over router seeds."
        ),
        columns=(
            "Condition",
            *(f"{arm}, {what}" for arm in ARMS for what in ("own", "other", "source", "seed")),
        ),
        rows=tuple(rows),
        notes=(counts(results[0]),),
    )


def gap_figure(results: list[RunResult]) -> str:
    """``fig:gap``: causal minus imitation with one paired standard error."""
    result = from_source(results, 0)
    gaps = {title: paired_gap(result, condition) for condition, title in CONDITIONS.items()}
    figure = new_figure(width=6.0)
    axes = figure.axes[0]
    places = list(range(len(gaps)))[::-1]
    axes.errorbar(
        [gap.mean for gap in gaps.values()],
        places,
        xerr=[gap.standard_error for gap in gaps.values()],
        fmt="o",
        color=COLOURS["causal"],
        capsize=3,
    )
    axes.axvline(0, color=COLOURS["other"], linewidth=0.8)
    axes.set_yticks(places, list(gaps))
    axes.set_xlabel("causal minus imitation, routed accuracy")
    return svg(figure)


def routing_figure(routed: list[RunResult], chains: list[RunResult]) -> str:
    """``fig:routing``: means over teachers; on multi-hop every teacher, because the spread is the result there."""
    result = from_source(routed, 0)
    figure = new_figure(width=6.5, height=4.6)
    axes = figure.axes[0]
    titles = [*CONDITIONS.values(), "Multi-hop, chain router"]
    places = list(range(len(titles)))[::-1]
    for i, (arm, (label, on_chains, colour, marker)) in enumerate(FIGURE_ARMS.items()):
        heights = [place + 0.24 - 0.16 * i for place in places]  # arms that tie must not hide each other
        means = [over_teachers(result, arm, condition) for condition in CONDITIONS]
        axes.plot(means, heights[:-1], marker, color=COLOURS[colour], label=label, markersize=4)
        teachers = sorted(on_multihop(chain, on_chains) for chain in chains)
        row = [heights[-1]] * len(teachers)
        axes.plot(
            teachers, row, f"{marker}-", color=COLOURS[colour], markerfacecolor="none", linewidth=1.0, markersize=4
        )
    axes.set_yticks(places, titles)
    axes.set_xlim(-0.02, 1.02)
    axes.set_xlabel("routed accuracy, 10 % of the blocks (multi-hop: three blocks)")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return svg(figure)


def on_multihop(chain: RunResult, arm: str) -> float:
    """One teacher; mean over router seeds."""
    if arm in UNROUTED:
        return chain.metric(f"{arm}_multihop").value
    return fmean(chain.metric(f"{arm}_multihop_r{seed}").value for seed in range(chain.config["router_seeds"]))


def from_source(results: list[RunResult], source: int) -> RunResult:
    return next(result for result in results if result.config["source"] == source)


def on_teacher(result: RunResult, arm: str, condition: str, teacher: int) -> float:
    """Mean over router seeds; dense and random have none."""
    name = f"{arm}_{condition}_t{teacher}"
    if arm in UNROUTED:
        return result.metric(name).value
    return fmean(result.metric(f"{name}_r{seed}").value for seed in range(result.config["router_seeds"]))


def over_teachers(result: RunResult, arm: str, condition: str) -> float:
    return fmean(on_teacher(result, arm, condition, teacher) for teacher in result.config["teachers"])


def paired_gap(result: RunResult, condition: str) -> PairedDifference:
    teachers = result.config["teachers"]
    causal, imitation = (
        [on_teacher(result, arm, condition, teacher) for teacher in teachers] for arm in ("causal", "imitation")
    )
    return paired_difference(causal, imitation)


def transferred(results: list[RunResult], arm: str, condition: str) -> tuple[float, float]:
    """Mean score on the source itself, and on the other teachers."""
    scores = {
        (r.config["source"], teacher): on_teacher(r, arm, condition, teacher)
        for r in results
        for teacher in r.config["teachers"]
    }
    own = [score for (source, teacher), score in scores.items() if source == teacher]
    other = [score for (source, teacher), score in scores.items() if source != teacher]
    return fmean(own), fmean(other)


def spreads(results: list[RunResult], arm: str, condition: str) -> tuple[float, float]:
    """Standard deviation over sources and over router seeds, each averaged over everything else."""
    teachers = results[0].config["teachers"]
    by_source = [pstdev([on_teacher(r, arm, condition, teacher) for r in results]) for teacher in teachers]
    by_seed = [
        pstdev([r.metric(f"{arm}_{condition}_t{teacher}_r{seed}").value for seed in range(r.config["router_seeds"])])
        for r in results
        for teacher in teachers
    ]
    return fmean(by_source), fmean(by_seed)


def signed(gap: PairedDifference) -> str:
    return f"{gap.mean:+.3f} ± {gap.standard_error:.3f}"


def counts(result: RunResult) -> str:
    return (
        f"n = {result.counts['examples']} examples per teacher and condition; "
        f"{len(result.config['teachers'])} teachers, {result.config['router_seeds']} router seeds; "
        "contexts of 16, 32 and 64 blocks."
    )
