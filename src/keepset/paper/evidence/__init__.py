"""Evidence a reader agrees with: which sentence of a natural text an answer rests on, keepset beside every other tool.

SQuAD has been read by people, who marked the sentence that answers. Every tool gets the gold answer and the same
sentences. Needs SQuAD v1.1 in a folder: ``keepset bench evidence --data FOLDER``, and for Captum and ContextCite
``pip install 'keepset[peers]'``. Reading order: ``units`` and ``two_hop`` and ``documents`` (what is asked), ``tools``,
``measure`` (the numbers), ``about`` (is the text about the question?), ``replies`` (all of it at once), ``focus`` (a
reply from the sentence the question points at), ``found`` (on files nobody prepared), ``run``, ``tables``,
``reply_tables``, ``paired``, ``claims``.
"""

from keepset.paper.evidence.claims import evidence_claims
from keepset.paper.evidence.focus import focus_claims, focus_table
from keepset.paper.evidence.paired import paired_table
from keepset.paper.evidence.reply_tables import replies_table, reply_kinds_table
from keepset.paper.evidence.run import NAME, jobs
from keepset.paper.evidence.tables import (
    about_table,
    articles_table,
    documents_table,
    found_table,
    squad_table,
    two_hop_table,
)
from keepset.paper.experiment import Experiment, Report

TABLES = (
    squad_table,
    paired_table,
    articles_table,
    two_hop_table,
    documents_table,
    found_table,
    about_table,
    replies_table,
    reply_kinds_table,
    focus_table,
)

EXPERIMENT = Experiment(
    name=NAME,
    place=66,
    jobs=jobs,
    jobs_on=jobs,
    reports=(
        Report(
            "Evidence on natural text beside Captum, ContextCite, ARC-JSD and the readouts; not in the text",
            "labels",
            lambda results: [table for make in TABLES if (table := make(results)).rows],
            beyond=True,
        ),
    ),
    claims=lambda results: [*evidence_claims(results), *focus_claims(results)],
    bench=True,
)
