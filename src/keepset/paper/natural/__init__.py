"""Pruning natural text: how much of what people ask for survives, with and without the question, beside plain words.

SQuAD articles and QASPER papers, read from a folder: ``keepset bench natural --data FOLDER``. What the reader sees of
them is read once and kept in the cache folder. ``python -m keepset.paper.natural.ship FOLDER`` trains the router in the
package. Reading order: ``states`` (what the reader sees), ``documents`` (blocks, questions, splits),
``training``, ``corpus`` (how much of them), ``measure``, ``scorers``, ``likelihood``, ``minilm``, ``answers``,
``paper_answers``, ``layers``, ``papers``, ``granularity``, ``others``, ``transfer``, ``cost``, ``run``, ``tables``,
``answer_tables``, ``limits``, ``claims``, ``ship``.
"""

from keepset.paper.experiment import Experiment, Report
from keepset.paper.natural.answer_tables import answers_table, paper_answers_table
from keepset.paper.natural.claims import natural_claims
from keepset.paper.natural.corpus import QASPER, SQUAD
from keepset.paper.natural.limits import granularity_table, limits_table, others_table
from keepset.paper.natural.run import NAME, ROUTER, jobs
from keepset.paper.natural.tables import cost_table, qasper_table, squad_table, transfer_table
from keepset.paper.results import Results
from keepset.paper.table import Table


def tables(results: Results) -> list[Table]:
    """Those that have been measured."""
    found = []
    if not results.select("recall", documents=QASPER, scorer=ROUTER).empty:
        found.append(qasper_table(results))
    if not results.select("among_best", documents=SQUAD, scorer=ROUTER).empty:
        found.append(squad_table(results))
    if not results.select("preserved", kind="answers").empty:
        found.append(answers_table(results))
    if (limits := limits_table(results)).rows:
        found.append(limits)
    if not results.select("answering_sentences").empty:
        found.append(granularity_table(results))
    if not results.select("others").empty:
        found.append(others_table(results))
    if not results.select("rests").empty:
        found.append(transfer_table(results))
    return found


def paper_answers(results: Results) -> list[Table]:
    """A table for every model that answers anything."""
    return [paper_answers_table(results, str(model)) for model in results.coordinates("model", "preserved")]


def costs(results: Results) -> list[Table]:
    return [] if results.select("cpu_seconds").empty else [cost_table(results)]


EXPERIMENT = Experiment(
    name=NAME,
    place=68,
    jobs=jobs,
    jobs_on=jobs,
    reports=(
        Report("Natural text: what the router that ships keeps, and words", "eviction", tables, beyond=True),
        Report("tab:qasper-pilot, tab:qasper-router", "eviction", paper_answers),
        Report("Natural text: what compressing costs", "cost", costs, beyond=True),
    ),
    claims=natural_claims,
    bench=True,
)
