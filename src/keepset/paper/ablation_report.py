"""Label against loss, and the tuning guard: ``tab:ablation``, ``tab:app-ablation``, ``tab:app-guard``."""

from statistics import fmean

from keepset.paper.result import RunResult
from keepset.paper.routing_report import on_teacher, over_teachers, paired_gap, signed
from keepset.paper.table import Table

CONDITIONS = {"multihop": "Multi-hop", "unique_4x": "Unique 4×", "latest_write_4x": "Latest 4×"}
ARMS = {
    "attention_kl": ("Attention (answer position)", "KL"),
    "attention_sparse_kl": ("Attention (answer position)", "SparseKL"),
    "attention_coverage": ("Attention (answer position)", "coverage"),
    "all_positions_kl": ("Attention (all positions)", "KL"),
    "causal_coverage": ("Causal evidence", "coverage"),
    "causal_kl": ("Causal evidence", "KL"),
}
"""Arm -> label, loss."""
PAPER = {
    "attention_kl": ("0.10", "0.64", "0.78"),
    "attention_sparse_kl": ("0.07", "0.61", "0.76"),
    "attention_coverage": ("0.10", "0.66", "0.77"),
    "all_positions_kl": ("0.01", "0.09", "0.01"),
    "causal_coverage": ("0.09", "0.74", "0.81"),
    "causal_kl": ("0.09", "0.70", "0.79"),
    "random": ("0.04", "0.10", "0.07"),
}
PAPER_RANGES = {
    "dense": ("0.04–1.00", "0.09–0.30", "0.10–0.40"),
    "attention_kl": ("0.06–0.12", "0.53–0.72", "0.66–0.83"),
    "attention_sparse_kl": ("", "", ""),
    "attention_coverage": ("0.04–0.10", "0.52–0.74", "0.63–0.83"),
    "all_positions_kl": ("0.01–0.02", "0.07–0.09", "0.00–0.02"),
    "causal_coverage": ("0.03–0.09", "0.68–0.78", "0.70–0.88"),
    "causal_kl": ("0.02–0.10", "0.63–0.75", "0.67–0.83"),
    "random": ("0.02–0.05", "0.10–0.11", "0.06–0.07"),
}
"""Over the paper's five teachers."""
RETUNINGS = {"lr-3e-4": "learning rate 3e-4", "lr-3e-3": "learning rate 3e-3", "steps-3x": "3× steps"}
PAPER_GUARD = {
    ("lr-3e-4", "unique_4x"): ("0.64", "0.71", "+0.08"),
    ("lr-3e-4", "latest_write_4x"): ("0.78", "0.79", "+0.00"),
    ("lr-3e-3", "unique_4x"): ("0.61", "0.74", "+0.13"),
    ("lr-3e-3", "latest_write_4x"): ("0.76", "0.78", "+0.03"),
    ("steps-3x", "unique_4x"): ("0.61", "0.69", "+0.08"),
    ("steps-3x", "latest_write_4x"): ("0.77", "0.77", "+0.00"),
}
"""Imitation, causal, gap."""


def ablation_table(results: list[RunResult]) -> Table:
    """Label by loss: mean over teachers and router seeds, with the range over teachers."""
    (result,) = results
    rows: list[tuple[str, ...]] = []
    for arm, titles in ARMS.items():
        rows.append((*titles, *with_paper(result, arm)))
    rows += [(), ("Random gates", "", *with_paper(result, "random"))]
    rows.append(("Dense teacher", "", *(mean_and_range(result, "dense", condition) for condition in CONDITIONS)))
    return Table(
        name="tab-ablation",
        caption=(
            "Label type against loss form for pooling routers trained on the labels of five-task teacher 0: mean over "
            "teachers and router seeds, range over teachers in square brackets, the paper's mean in round ones. "
            "SparseKL restricts the divergence to the router's own top blocks."
        ),
        columns=("Label", "Loss", *CONDITIONS.values()),
        rows=tuple(rows),
        notes=(counts(result), budget(result)),
    )


def with_paper(result: RunResult, arm: str) -> list[str]:
    return [
        f"{mean_and_range(result, arm, condition)} ({paper})"
        for condition, paper in zip(CONDITIONS, PAPER[arm], strict=True)
    ]


def mean_and_range(result: RunResult, arm: str, condition: str) -> str:
    values = [on_teacher(result, arm, condition, teacher) for teacher in result.config["teachers"]]
    return f"{fmean(values):.2f} [{min(values):.2f}–{max(values):.2f}]"


def ablation_per_teacher_table(results: list[RunResult]) -> Table:
    """Every arm on every teacher."""
    (result,) = results
    teachers = result.config["teachers"]
    rows: list[tuple[str, ...]] = []
    for place, (condition, title) in enumerate(CONDITIONS.items()):
        if rows:
            rows.append(())
        for arm, ranges in PAPER_RANGES.items():
            values = [on_teacher(result, arm, condition, teacher) for teacher in teachers]
            label = ", ".join(ARMS[arm]) if arm in ARMS else arm
            rows.append((title, label, *(f"{value:.2f}" for value in values), ranges[place]))
    return Table(
        name="tab-app-ablation",
        caption=(
            "The label-by-loss ablation per five-task teacher, labels of teacher 0, mean over router seeds. Last "
            "column: the range over the paper's five teachers, one of which never learned multi-hop; it has no row "
            "for SparseKL."
        ),
        columns=("Condition", "Arm", *(f"seed {teacher}" for teacher in teachers), "paper"),
        rows=tuple(rows),
        notes=(counts(result), budget(result)),
    )


def guard_table(results: list[RunResult]) -> Table:
    """Both arms at every retuning, paired over teachers."""
    found = {result.config["retuning"]: result for result in results}
    rows = []
    for (retuning, condition), (imitation, causal, gap) in PAPER_GUARD.items():
        if retuning in found:
            result = found[retuning]
            rows.append(
                (
                    RETUNINGS[retuning],
                    CONDITIONS[condition],
                    f"{over_teachers(result, 'imitation', condition):.2f} ({imitation})",
                    f"{over_teachers(result, 'causal', condition):.2f} ({causal})",
                    f"{signed(paired_gap(result, condition))} ({gap})",
                )
            )
    return Table(
        name="tab-app-guard",
        caption=(
            "Tuning guard: both routers retrained on the labels of single-hop teacher 0 at other learning rates (1e-3 "
            "elsewhere) and at triple steps; mean over teachers and router seeds (the paper's in brackets). Gap: "
            "causal minus imitation, paired over teachers, ± standard error."
        ),
        columns=("Retuning", "Condition", "Imitation", "Causal", "Gap"),
        rows=tuple(rows),
        notes=(counts(results[0]),),
    )


def counts(result: RunResult) -> str:
    return (
        f"Small scale; n = {result.counts['examples']} examples per teacher and condition, "
        f"{len(result.config['teachers'])} teachers, {result.config['router_seeds']} router seeds."
    )


def budget(result: RunResult) -> str:
    return (
        f"Kept: 10 % of the blocks, at least {result.config['fewest_blocks']}, because 10 % of the 16 blocks of "
        "multi-hop are two and a chain has three records; the paper keeps four of 32 there."
    )
