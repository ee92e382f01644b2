"""Tables and figures of ``routing``."""

from statistics import fmean, pstdev

from keepset.figures import COLOURS, new_figure, svg
from keepset.paper.pooling import paired_gap, per_teacher, signed
from keepset.paper.results import Results
from keepset.paper.routing.run import ARMS, CONDITIONS, NAME, SOURCE
from keepset.paper.statistics import paired_difference
from keepset.paper.table import Figure, Table, bracket
from keepset.paper.teachers import MULTIHOP
from keepset.paper.words import in_words, listed

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
FIGURE_ARMS = {
    "dense": ("dense", "dense", "other", "s"),
    "imitation": ("imitation", "attention", "attention", "o"),
    "causal": ("causal", "causal", "causal", "D"),
    "random": ("random gates", "random", "other", "x"),
}
"""Arm -> title, its name in the chain results, colour, marker."""


def on_teachers(results: Results, arm: str, condition: str) -> list[float]:
    """Each teacher routed by labels of teacher 0, or not routed."""
    return per_teacher(results, condition, arm=arm, **({"source": SOURCE} if arm in ARMS else {}))


def routing_table(results: Results) -> Table:
    """Labels of teacher 0: mean over teachers and router seeds, causal minus imitation paired over teachers."""
    teachers, router_seeds = (in_words(len(results.coordinates(name))) for name in ("teacher", "router_seed"))
    rows = []
    for condition, title in CONDITIONS.items():
        paper = PAPER[condition]
        dense, imitation, causal, chance = (
            fmean(on_teachers(results, arm, condition)) for arm in ("dense", "imitation", "causal", "random")
        )
        gap = paired_gap(results, condition, source=SOURCE)
        rows.append(
            (
                title,
                f"{dense:.2f} ({paper[0]})",
                f"{imitation:.3f} ({paper[1]})",
                f"{causal:.3f} ({paper[2]})",
                f"{signed(gap)} ({paper[3]})",
                f"{gap.p_value:.3f}",
                f"{chance:.2f}",
            )
        )
    return Table(
        name="tab-routing",
        caption=(
            "Single-record routed accuracy at the 10 % block budget: pooling routers trained on the labels of teacher "
            f"0, mean over {teachers} teachers and {router_seeds} router seeds (the paper's in brackets). Difference: "
            "causal minus imitation, paired over teachers, ± standard error; p: paired t-test."
        ),
        columns=("Condition", "Dense", "Imitation", "Causal", "Difference", "p", "Random"),
        rows=tuple(rows),
        notes=(counts(results),),
    )


def per_teacher_table(results: Results) -> Table:
    """``tab:app-routing``: every arm on every teacher."""
    rows: list[tuple[str, ...]] = []
    for condition in CONDITIONS:
        for arm in FIGURE_ARMS:
            rows.append((condition, arm, *(f"{value:.2f}" for value in on_teachers(results, arm, condition))))
        rows.append(())
    return Table(
        name="tab-app-routing",
        caption="Routed accuracy per teacher at the 10 % budget, labels of teacher 0, mean over router seeds.",
        columns=("Condition", "Arm", *(f"seed {teacher}" for teacher in results.coordinates("teacher"))),
        rows=tuple(rows[:-1]),
        notes=(counts(results),),
    )


def kept_table(results: Results) -> Table:
    """Is it the evidence that a router loses, or what it keeps beside it?"""
    rows = []
    for condition, title in CONDITIONS.items():
        covered = (
            bracket(results.values("covered", condition=condition, arm=arm, source=SOURCE))
            for arm in ("imitation", "causal")
        )
        routed = (fmean(on_teachers(results, arm, condition)) for arm in ("imitation", "causal", "annotated"))
        rows.append((title, *covered, *(f"{value:.3f}" for value in routed)))
    return Table(
        name="routing-kept",
        caption=(
            "What is behind the numbers of tab-routing. Evidence kept: how often a router's blocks hold an annotated "
            "set, mean over router seeds with the range; no teacher has a part in it. Answered: routed accuracy, also "
            "of the evidence among random blocks, as many as a router keeps."
        ),
        columns=(
            "Condition",
            "Evidence kept, imitation",
            "Evidence kept, causal",
            "Answered, imitation",
            "Answered, causal",
            "Answered, evidence and random blocks",
        ),
        rows=tuple(rows),
        notes=(counts(results),),
    )


def every_source(results: Results) -> bool:
    """Own labels and transfer say something only when each teacher has been a source."""
    return len(results.coordinates("source")) == len(results.coordinates("teacher"))


def own_teacher_table(results: Results) -> list[Table]:
    """``tab:app-own-teacher``: routers trained on the teacher they route."""
    if not every_source(results):
        return []
    rows = []
    for condition, title in CONDITIONS.items():
        own = {
            arm: [
                fmean(values)
                for (source, teacher), values in runs(results, arm, condition).items()
                if source == teacher
            ]
            for arm in ARMS
        }
        gap = paired_difference(own["causal"], own["imitation"])
        rows.append(
            (
                title,
                f"{signed(paired_gap(results, condition, source=SOURCE))} ({PAPER[condition][3]})",
                f"{fmean(own['imitation']):.3f}",
                f"{fmean(own['causal']):.3f}",
                f"{signed(gap)} ({PAPER_OWN[condition]})",
            )
        )
    return [
        Table(
            name="tab-app-own-teacher",
            caption=(
                "Each arm trained on the teacher it routes, beside the protocol of tab-routing. Difference: causal "
                "minus imitation, paired within teachers, ± standard error (the paper's in brackets)."
            ),
            columns=(
                "Condition",
                "Difference, labels of teacher 0",
                "Imitation, own",
                "Causal, own",
                "Difference, own",
            ),
            rows=tuple(rows),
            notes=(counts(results),),
        )
    ]


def transfer_table(results: Results) -> list[Table]:
    """``tab:app-transfer``: does the source of the labels matter more than the router's initialization?"""
    if not every_source(results):
        return []
    rows = []
    for condition, title in CONDITIONS.items():
        cells: list[str] = []
        for arm in ARMS:
            own, other, by_source, by_seed = transferred(results, arm, condition)
            cells += [f"{own:.3f}", f"{other:.3f}", f"{by_source:.4f}", f"{by_seed:.4f}"]
        rows.append((title, *cells))
    return [
        Table(
            name="tab-app-transfer",
            caption=(
                "Every source of labels on every teacher. Own: source and destination are one teacher; other: they "
                "are not. Source: standard deviation of a destination's score over sources, each the mean over router "
                "seeds; seed: the same over router seeds, each the mean over sources."
            ),
            columns=(
                "Condition",
                *(f"{arm}, {what}" for arm in ARMS for what in ("own", "other", "source", "seed")),
            ),
            rows=tuple(rows),
            notes=(counts(results),),
        )
    ]


def transferred(results: Results, arm: str, condition: str) -> tuple[float, float, float, float]:
    """Mean score on the source itself and on the other teachers; standard deviation over sources and router seeds."""
    scores = {place: fmean(values) for place, values in runs(results, arm, condition).items()}
    by_source, by_seed = source_and_seed_means(results, arm, condition)
    return (
        fmean(score for (source, teacher), score in scores.items() if source == teacher),
        fmean(score for (source, teacher), score in scores.items() if source != teacher),
        fmean(pstdev(means) for means in by_source.values()),
        fmean(pstdev(means) for means in by_seed.values()),
    )


def source_and_seed_means(
    results: Results, arm: str, condition: str
) -> tuple[dict[int, list[float]], dict[int, list[float]]]:
    """Destination -> its score per source, mean over router seeds; and per router seed, mean over sources."""
    found = runs(results, arm, condition)
    teachers = results.coordinates("teacher")
    by_source = {t: [fmean(found[source, t]) for source in teachers] for t in teachers}
    by_seed = {t: [fmean(each) for each in zip(*(found[s, t] for s in teachers), strict=True)] for t in teachers}
    return by_source, by_seed


def runs(results: Results, arm: str, condition: str) -> dict[tuple[int, int], list[float]]:
    """Source and destination -> one value per router seed."""
    found = results.select("routed", arm=arm, condition=condition)
    return {place: list(values) for place, values in found.groupby(["source", "teacher"])["value"]}


def gap_figure(results: Results) -> Figure:
    """``fig:gap``: causal minus imitation with one paired standard error."""
    gaps = {title: paired_gap(results, condition, source=SOURCE) for condition, title in CONDITIONS.items()}
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
    return Figure("fig-gap", svg(figure))


def routing_figure(results: Results) -> Figure:
    """``fig:routing``: means over teachers; on multi-hop every teacher, because the spread is the result there."""
    routed, chains = results.of(NAME), results.of("chains")
    figure = new_figure(width=6.5, height=4.6)
    axes = figure.axes[0]
    titles = [*CONDITIONS.values(), "Multi-hop, chain router"]
    places = list(range(len(titles)))[::-1]
    for i, (arm, (label, on_chains, colour, marker)) in enumerate(FIGURE_ARMS.items()):
        heights = [place + 0.24 - 0.16 * i for place in places]  # arms that tie must not hide each other
        means = [fmean(on_teachers(routed, arm, condition)) for condition in CONDITIONS]
        axes.plot(means, heights[:-1], marker, color=COLOURS[colour], label=label, markersize=4)
        measured = chains.select("routed", condition=MULTIHOP, arm=on_chains)
        teachers = sorted(float(found) for found in measured.groupby("teacher")["value"].mean())
        row = [heights[-1]] * len(teachers)
        axes.plot(
            teachers, row, f"{marker}-", color=COLOURS[colour], markerfacecolor="none", linewidth=1.0, markersize=4
        )
    axes.set_yticks(places, titles)
    axes.set_xlim(-0.02, 1.02)
    axes.set_xlabel("routed accuracy, 10 % of the blocks (multi-hop: three blocks)")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return Figure("fig-routing", svg(figure))


def counts(results: Results) -> str:
    run = results.run(source=SOURCE)
    return (
        f"n = {run.counts['examples']} examples per teacher and condition; "
        f"{len(results.coordinates('teacher'))} teachers, {len(results.coordinates('router_seed'))} router seeds; "
        f"contexts of {listed(sorted(set(run.config['blocks'].values())))} blocks."
    )
