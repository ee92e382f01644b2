"""What pruning saves of a prefill, of questions and of memory, beside what the budget allows.

One file per model and length, with all sides in it: they run in turn on the same documents, or their seconds could not
be compared. ``run`` measures, ``tables`` shows.
"""

from keepset.paper.bench.prune.run import NAME, jobs
from keepset.paper.bench.prune.tables import prune_table
from keepset.paper.experiment import Experiment, Report

EXPERIMENT = Experiment(
    name=NAME,
    place=64,
    jobs=jobs,
    reports=(
        Report(
            "What pruning saves of prefill, questions, keys and values and peak memory, and the router's share",
            "cost",
            prune_table,
            beyond=True,
        ),
    ),
    bench=True,
)
