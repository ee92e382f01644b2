"""``tab:pretrained``, ``tab:app-pretrained-unique``, ``fig:pretrained``, ``tab:trace-pretrained``; what is claimed."""

from dataclasses import replace

from keepset.figures import COLOURS, new_figure, svg
from keepset.paper.claim import Claim, above, below
from keepset.paper.pretrained.margins import why_random_records_flip
from keepset.paper.pretrained.pool import INTERVAL_NOTE, cell, count, grouped, models, paper_rows, pooled_share
from keepset.paper.pretrained.readings import ATTENTION, ROLLOUT, TRACE
from keepset.paper.pretrained.written import bar_claim
from keepset.paper.result import At
from keepset.paper.results import Results
from keepset.paper.statistics import bounds
from keepset.paper.table import Figure, Table

FLIPS, RARELY, SUFFICES = 0.98, 0.05, 0.98
"""What must be shown of a solved example: current record hidden, a random one hidden, the current one alone."""
SOLVED_NOTE = "Flip and sufficiency are of solved examples (column Solved); accuracy and obsolete > current of all."

PAPER_CONFLICTING = """
Qwen2.5-0.5B | 400 | 0.23 | | 1.00 | 0.29 | 1.00 | 0.83 | -
Qwen2.5-1.5B | 400 | 0.60 | | 1.00 | 0.03 | 1.00 | 0.72 | -
Qwen2.5-3B | 400 | 0.99 | | 1.00 | 0.00 | 1.00 | 0.58 | 0.48
Qwen2.5-7B | 400 | 0.96 | | 1.00 | 0.01 | 1.00 | 0.43 | 0.29
Yi-1.5-9B | 400 | 1.00 | | 1.00 | 0.01 | 1.00 | 0.72 | 0.65
Gemma-2-9B | 400 | 0.56 | | 1.00 | 0.05 | 1.00 | 0.45 | -
"""
PAPER_UNIQUE = """
Qwen2.5-0.5B | 400 | 1.00 | | 0.70 | 0.00 | 1.00
Qwen2.5-1.5B | 400 | 1.00 | | 0.72 | 0.00 | 1.00
Qwen2.5-3B | 400 | 1.00 | | 0.79 | 0.00 | 1.00
Qwen2.5-7B | 400 | 1.00 | | 0.76 | 0.00 | 1.00
Qwen2.5-14B | 60 | 1.00 | | 0.72 | 0.00 | 1.00
Yi-1.5-9B | 400 | 1.00 | | 0.76 | 0.00 | 1.00
Gemma-2-9B | 400 | 1.00 | | 0.74 | 0.00 | 1.00
"""
PAPER_READOUTS = """
Qwen2.5-3B | attention | | 0.58 | 0.48 | 0.50 | 0.95
Qwen2.5-3B | trace | | 0.47 | 0.34 | 0.63 | 0.95
Qwen2.5-3B | rollout | | 1.00 | 1.00 | 0.17 | 0.15
Qwen2.5-7B | attention | | 0.43 | 0.29 | 0.70 | 0.95
Qwen2.5-7B | trace | | 0.31 | 0.15 | 0.84 | 0.95
Qwen2.5-7B | rollout | | 1.00 | 1.00 | 0.17 | 0.14
Yi-1.5-9B | attention | | 0.72 | 0.65 | 0.37 | 0.92
Yi-1.5-9B | trace | | 0.54 | 0.43 | 0.58 | 0.96
Yi-1.5-9B | rollout | | 1.00 | 1.00 | 0.16 | 0.17
"""


def dependence_cells(results: Results, model: str, task: str) -> tuple[str, ...]:
    """Examples, accuracy, solved, the two flips, sufficiency."""
    at: At = {"model": model, "task": task}
    return (
        count(results, "dense", **at),
        cell(results, "dense", **at),
        count(results, "sufficient", **at),
        cell(results, "flip", hidden="current", **at),
        cell(results, "flip", hidden="random", **at),
        cell(results, "sufficient", **at),
    )


def asked(results: Results, task: str) -> list[str]:
    """Models that were run on the task."""
    return [model for model in models(results) if pooled_share(results, "dense", model=model, task=task)]


def pretrained_table(results: Results) -> list[Table]:
    """``tab:pretrained``."""
    rows = [
        (
            model,
            *dependence_cells(results, model, "conflicting"),
            *(
                cell(results, "obsolete_over_current", model=model, readout=ATTENTION, among="all", sink=sink)
                for sink in ("kept", "elsewhere")
            ),
        )
        for model in asked(results, "conflicting")
    ]
    table = Table(
        name="tab-pretrained",
        caption=(
            "Frozen pretrained models on conflicting facts: 16 records, two obsolete writes, forced choice. Obsolete > "
            "current: some obsolete record gets more attention from the answer row than the current one; no sink: of "
            "the examples whose first record is not obsolete."
        ),
        columns=(
            "Model",
            "n",
            "Accuracy",
            "Solved",
            "Flip (current)",
            "Flip (random)",
            "Sufficient alone",
            "Obsolete > current",
            "no sink",
        ),
        rows=(*rows, *paper_rows(PAPER_CONFLICTING)),
        notes=(INTERVAL_NOTE, SOLVED_NOTE),
    )
    return [table] if rows else []


def unique_table(results: Results) -> list[Table]:
    """``tab:app-pretrained-unique``."""
    rows = [(model, *dependence_cells(results, model, "unique")) for model in asked(results, "unique")]
    table = Table(
        name="tab-app-pretrained-unique",
        caption=(
            "Frozen pretrained models on unique retrieval: 16 records, three wrong candidates from outside the "
            "context, so that chance flips 0.75 when the record is hidden."
        ),
        columns=("Model", "n", "Accuracy", "Solved", "Flip (target)", "Flip (random)", "Sufficient alone"),
        rows=(*rows, *paper_rows(PAPER_UNIQUE)),
        notes=(INTERVAL_NOTE, "Flip and sufficiency are of solved examples (column Solved)."),
    )
    return [table] if rows else []


def readouts_table(results: Results) -> list[Table]:
    """``tab:trace-pretrained``."""
    groups = []
    for model in asked(results, "conflicting"):
        at: At = {"model": model, "task": "conflicting"}
        solved = count(results, "sufficient", **at)
        groups.append(
            [
                (
                    model,
                    readout,
                    solved,
                    *(
                        cell(results, "obsolete_over_current", readout=readout, among="solved", sink=sink, **at)
                        for sink in ("kept", "elsewhere")
                    ),
                    *(cell(results, "routed", readout=readout, sink=sink, **at) for sink in ("kept", "barred")),
                )
                for readout in (ATTENTION, TRACE, ROLLOUT)
            ]
        )
    table = Table(
        name="tab-trace-pretrained",
        caption=(
            "Readouts on conflicting facts, of the examples each model answers: how often some obsolete record "
            "outscores the current one, over all of these and over those whose first record is not obsolete; and how "
            "often the two best records alone still give the answer, with record 0 allowed and barred."
        ),
        columns=(
            "Model",
            "Readout",
            "Solved",
            "Obsolete > current",
            "no sink",
            "Routed, top 2",
            "Routed, top 2 after record 0",
        ),
        rows=(*grouped(groups), *paper_rows(PAPER_READOUTS)),
        notes=(INTERVAL_NOTE, "The annotated record alone: column Sufficient alone of tab-pretrained."),
    )
    return [table] if groups else []


def pretrained_figure(results: Results) -> list[Figure]:
    """``fig:pretrained``: accuracy beside how often attention prefers an obsolete record."""
    names = asked(results, "conflicting")
    if not names:
        return []
    figure = new_figure(width=4.6, height=3.0)
    axes = figure.axes[0]
    lines = {
        "accuracy": ("causal", "o", {"what": "dense"}),
        "obsolete > current (attention)": (
            "attention",
            "s",
            {"what": "obsolete_over_current", "readout": ATTENTION, "among": "all", "sink": "kept"},
        ),
    }
    for label, (colour, marker, at) in lines.items():
        shares = [pooled_share(results, model=name, task="conflicting", **at) for name in names]
        there = [(i, share) for i, share in enumerate(shares) if share]
        axes.errorbar(
            [i for i, _ in there],
            [share.value for _, share in there],
            yerr=[
                [share.value - bounds(share)[0] for _, share in there],
                [bounds(share)[1] - share.value for _, share in there],
            ],
            fmt=f"{marker}-",
            color=COLOURS[colour],
            label=label,
        )
    axes.set_xticks(range(len(names)), names, rotation=20, ha="right")
    axes.set_ylim(-0.02, 1.02)
    axes.set_ylabel("share of conflicting-facts examples")
    axes.legend(loc="best")
    return [Figure("fig-pretrained", svg(figure))]


def dependence_claims(results: Results) -> list[Claim]:
    """Masking the current record flips, masking another does not, and it is enough alone; per model."""
    claims = []
    for model in asked(results, "conflicting"):
        bars = (
            (
                "Hiding the current record flips the choice",
                "1.00 (every model)",
                {"what": "flip", "hidden": "current"},
                above,
                FLIPS,
            ),
            (
                "Hiding a random record flips the choice",
                "0.29 (0.5B), 0.03 (1.5B), 0.00 (3B)",
                {"what": "flip", "hidden": "random"},
                below,
                RARELY,
            ),
            ("The current record alone suffices", "1.00 (every model)", {"what": "sufficient"}, above, SUFFICES),
        )
        for claim, paper, at, side, bar in bars:
            metric = pooled_share(results, model=model, task="conflicting", **at)
            if metric:
                words = "at least" if side is above else "at most"
                text = f"{claim}, conflicting facts ({model}): {words} {bar}"
                judged = bar_claim(text, paper, metric, bar, "solved", side)
                if side is below:
                    tested = why_random_records_flip(results, model)
                    judged = replace(judged, own_choice=tested, bar_is_ours=True)
                claims.append(judged)
    return claims
