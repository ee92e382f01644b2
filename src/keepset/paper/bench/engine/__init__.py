"""What labels cost: the paper's forwards against the engine's, and two other tools on the same records.

One file per subject and length, with all sides in it: they run in turn on the same examples, or their seconds could not
be compared. Reading order: ``run`` (settings, sides, clock), ``tally`` (numbers), ``peers`` (the other tools),
``tables``.
"""

from keepset.paper.bench.engine.run import NAME, jobs
from keepset.paper.bench.engine.tables import engine_table, peers_table
from keepset.paper.bench.models import tiny_model
from keepset.paper.experiment import Experiment, Report

__all__ = ["EXPERIMENT", "tiny_model"]

EXPERIMENT = Experiment(
    name=NAME,
    place=60,
    jobs=jobs,
    reports=(
        Report(
            "Cost of labelling by the reference and by every effort of the engine, beside Captum and ContextCite",
            "cost",
            lambda results: (engine_table(results), peers_table(results)),
            beyond=True,
        ),
    ),
    bench=True,
)
