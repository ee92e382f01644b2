"""``fig:eviction-scale``."""

from keepset.figures import COLOURS, new_figure, svg
from keepset.paper.eviction.pool import pooled
from keepset.paper.eviction.tables import ALL_CONDITIONS, MAIN_BUDGET, MODES, PRE_QUERY, percent
from keepset.paper.result import RunResult
from keepset.paper.statistics import bounds

MARKS = {
    "oracle": ("other", "*"),
    "causal_r0": ("causal", "D"),
    "kvzip": ("ablation", "P"),
    "snapkv": ("ablation", "^"),
    "h2o": ("attention", "s"),
    "imitation_r0": ("attention", "o"),
    "recency": ("other", "<"),
    "random": ("other", "x"),
}
"""Policy -> colour, marker; in the order of the figure."""


def scale_figure(results: list[RunResult]) -> str | None:
    """``fig:eviction-scale``: every task on every model at the longest length all of them have; None without one."""
    pools = pooled(results)
    models = {pool.model for pool in pools}
    common = [
        length for length in {p.length for p in pools} if {p.model for p in pools if p.length == length} == models
    ]
    if not common:
        return None
    shown = [
        (f"{title}, n = {pool.solved(condition)}\n{pool.model}", pool, condition)
        for condition, title in ALL_CONDITIONS.items()
        for pool in pools
        if pool.length == max(common) and pool.conditions([condition]) and pool.solved(condition)
    ]
    figure = new_figure(width=7.0, height=0.8 + 0.85 * len(shown))
    axes = figure.axes[0]
    places = list(range(len(shown)))[::-1]
    for i, (policy, (colour, marker)) in enumerate(MARKS.items()):
        found = [
            (place + 0.36 - 0.1 * i, share)  # policies that tie must not hide each other
            for place, (_, pool, condition) in zip(places, shown, strict=True)
            if (share := pool.share(condition, "pre_query", MODES[0], policy, MAIN_BUDGET)) is not None
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
            label=PRE_QUERY[policy],
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
    return svg(figure)
