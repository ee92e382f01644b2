"""``fig:eviction-scale``."""

from collections.abc import Iterable
from itertools import cycle, repeat

from keepset.figures import COLOURS, new_figure, svg
from keepset.paper.eviction.columns import ALL_CONDITIONS, CAUSAL, IMITATION, MODES, ORACLE, PRE_QUERY, Arm, percent
from keepset.paper.eviction.paper_numbers import MAIN_BUDGET
from keepset.paper.eviction.pool import pooled, titles
from keepset.paper.results import Results
from keepset.paper.statistics import bounds
from keepset.paper.table import Figure

MARKS = {
    ORACLE: ("other", "*"),
    CAUSAL: ("causal", "D"),
    Arm("kvzip"): ("ablation", "P"),
    Arm("kvzip_max"): ("ablation", "X"),
    Arm("snapkv"): ("ablation", "^"),
    Arm("h2o"): ("attention", "s"),
    IMITATION: ("attention", "o"),
    Arm("recency"): ("other", "<"),
    Arm("random"): ("other", "x"),
}
"""Policy -> colour, marker; in the order of the figure, before those that are not among the paper's columns."""
MORE_MARKERS = "v>phH8d1234+"
"""For these, again from the first where there are more."""


def marks(named: Iterable[Arm]) -> dict[Arm, tuple[str, str]]:
    others = [arm for arm in named if arm not in PRE_QUERY]
    return MARKS | dict(zip(others, zip(repeat("other"), cycle(MORE_MARKERS)), strict=False))


def scale_figure(results: Results) -> list[Figure]:
    """``fig:eviction-scale``: every task on every model at the longest length all of them have; none without one."""
    pools = [pool for pool in pooled(results) if pool.arms("pre_query")]
    named = titles(pools, "pre_query")
    models = {pool.subject for pool in pools}
    common = [
        length for length in {p.length for p in pools} if {p.subject for p in pools if p.length == length} == models
    ]
    if not common:
        return []
    shown = [
        (f"{title}, n = {pool.solved(condition)}\n{pool.subject}", pool, condition)
        for condition, title in ALL_CONDITIONS.items()
        for pool in pools
        if pool.length == max(common) and pool.conditions([condition]) and pool.solved(condition)
    ]
    figure = new_figure(width=7.0, height=0.8 + 0.85 * len(shown))
    axes = figure.axes[0]
    places = list(range(len(shown)))[::-1]
    marked = marks(named)
    for i, (arm, (colour, marker)) in enumerate(marked.items()):
        found = [
            (place + 0.36 - 0.8 / len(marked) * i, share)  # policies that tie must not hide each other
            for place, (_, pool, condition) in zip(places, shown, strict=True)
            if (share := pool.share(condition, "pre_query", MODES[0], arm, MAIN_BUDGET)) is not None
        ]
        if not found:
            continue
        heights, shares = zip(*found, strict=True)
        axes.errorbar(
            [share.value for share in shares],
            heights,
            xerr=[
                [share.value - bounds(share)[0] for share in shares],
                [bounds(share)[1] - share.value for share in shares],
            ],
            fmt=marker,
            color=COLOURS[colour],
            label=named[arm],
            markersize=5,
            linewidth=0.8,
        )
    axes.set_yticks(places, [title for title, *_ in shown])
    axes.set_ylim(-0.6, len(shown) - 0.4)
    axes.set_xlim(-0.02, 1.02)
    axes.set_xlabel(
        f"still answered, pre-query, {percent(MAIN_BUDGET)} of the blocks, mode {MODES[0]}, {max(common):,} tokens"
    )
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return [Figure("fig-eviction-scale", svg(figure))]
