"""Do teachers that learned the same task agree on what matters? (``tab:agreement``, ``fig:redundancy``, Section 3)

One result per kind of teacher and condition: every teacher's labels of the same examples, compared pair by pair. All
labels of a teacher come from one pass of effects and one of attention, so they share a file. The tables rest on
teachers of the paper's sizes, whose attention started sharp; those whose attention started soft show what that does
(``agreement-starts``).
"""

from keepset.paper.agreement.claims import claims
from keepset.paper.agreement.run import MIXTURES, NAME, jobs
from keepset.paper.agreement.tables import (
    agreement_table,
    pairs_table,
    redundancy_figure,
    stale_table,
    starts_table,
)
from keepset.paper.experiment import Choice, Experiment, Report
from keepset.paper.teachers import every_teacher

EXPERIMENT = Experiment(
    name=NAME,
    place=20,
    jobs=jobs,
    teachers=every_teacher(*MIXTURES),
    claims=claims,
    reports=(
        Report("tab:agreement", "labels", agreement_table),
        Report("tab:app-agreement", "labels", pairs_table),
        Report("fig:redundancy", "labels", redundancy_figure),
        Report("Section 3, stale attention", "labels", stale_table),
        Report("what attention's start does to agreement", "labels", starts_table, beyond=True),
    ),
    choices=(Choice("The set an attention label of fixed size holds", "three blocks"),),
)
