"""Routers on single-record tasks: one source of labels, every teacher routed.

Gives ``tab:routing`` and ``tab:app-routing`` (labels of teacher 0), ``tab:app-own-teacher`` (each teacher's own) and
``tab:app-transfer`` (every source on every destination). One result per source teacher and arm, and one of what no
router has a part in: the dense teachers, random gates, and the evidence among random blocks.
"""

from keepset.paper.experiment import Choice, Difference, Experiment, Report
from keepset.paper.pooling import paired_gap, signed
from keepset.paper.results import Results
from keepset.paper.routing.claims import single_record_claims
from keepset.paper.routing.run import MIXTURE, NAME, SOURCE, jobs
from keepset.paper.routing.tables import (
    gap_figure,
    kept_table,
    own_teacher_table,
    per_teacher_table,
    routing_figure,
    routing_table,
    transfer_table,
)
from keepset.paper.table import spread
from keepset.paper.teachers import every_teacher


def dense_at_four_times(results: Results) -> str:
    unique, latest = (
        spread(results.of("teachers").values("accuracy", mixture=MIXTURE, condition=condition))
        for condition in ("unique_4x", "latest_write_4x")
    )
    return f"{unique} unique, {latest} latest"


DIFFERENCES = (
    Difference(
        "tab:routing, dense at four times the length",
        "0.32 unique, 0.42 latest",
        dense_at_four_times,
        "not tested",
        needs=("teachers",),
    ),
    Difference(
        "tab:routing, causal minus imitation, unique at four times the length",
        "+0.110 ± 0.012",
        lambda results: signed(paired_gap(results, "unique_4x", source=SOURCE)),
        "routing-kept has how often each router keeps the evidence, and tab-app-guard other rates, steps and heads; "
        "why the paper's imitation is further behind is not tested",
    ),
)

EXPERIMENT = Experiment(
    name=NAME,
    place=30,
    jobs=jobs,
    teachers=every_teacher(MIXTURE),
    reports=(
        Report("tab:routing", "routing", routing_table),
        Report("tab:app-routing", "routing", per_teacher_table),
        Report("tab:app-own-teacher", "routing", own_teacher_table),
        Report("tab:app-transfer", "routing", transfer_table),
        Report("Evidence that routers keep, and what they keep beside it", "routing", kept_table, beyond=True),
        Report("fig:gap", "routing", gap_figure),
        Report("fig:routing", "routing", routing_figure, needs=("chains",)),
    ),
    claims=single_record_claims,
    differences=DIFFERENCES,
    choices=(
        Choice(
            "Pooling of answer-position attention",
            "heads first (maximum), then the mean over layers; as the target of an imitation router the mean over both",
        ),
    ),
)
