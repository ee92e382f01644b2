"""Pruning natural text: how much of what people ask for survives, with and without the question, beside plain words.

SQuAD articles and QASPER papers, read from a folder: ``keepset bench natural --data FOLDER``. What the reader sees of
them is read once and kept in the cache folder. ``python -m keepset.paper.natural.ship FOLDER`` trains the router in the
package. Reading order: ``states`` (what the reader sees), ``documents`` (blocks, questions, splits),
``training``, ``measure``, ``scorers``, ``likelihood``, ``answers``, ``layers``, ``cost``, ``run``, ``tables``,
``claims``, ``ship``.
"""

from keepset.paper.experiment import Experiment, Report
from keepset.paper.natural.claims import natural_claims
from keepset.paper.natural.run import NAME, QASPER, ROUTER, SQUAD, jobs
from keepset.paper.natural.tables import answers_table, cost_table, limits_table, qasper_table, squad_table
from keepset.paper.results import Results
from keepset.paper.table import Table


def tables(results: Results) -> list[Table]:
    """Those that have been measured."""
    found = []
    if not results.select("recall", documents=QASPER, scorer=ROUTER).empty:
        found.append(qasper_table(results))
    if not results.select("among_best", documents=SQUAD, scorer=ROUTER).empty:
        found.append(squad_table(results))
    if not results.select("preserved").empty:
        found.append(answers_table(results))
    if (limits := limits_table(results)).rows:
        found.append(limits)
    return found


def costs(results: Results) -> list[Table]:
    return [] if results.select("cpu_seconds").empty else [cost_table(results)]


EXPERIMENT = Experiment(
    name=NAME,
    place=68,
    jobs=jobs,
    jobs_on=jobs,
    reports=(
        Report("Natural text: what the router that ships keeps, and words", "eviction", tables, beyond=True),
        Report("Natural text: what compressing costs", "cost", costs, beyond=True),
    ),
    claims=natural_claims,
    bench=True,
)
