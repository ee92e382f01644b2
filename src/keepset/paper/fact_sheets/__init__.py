"""The quickstart's job on thirty documents it never shows: what stands behind its table.

Reading order: ``run`` (documents, routers, one part), ``tables`` (parts as one number, kvpress beside them, claims).
"""

from keepset.paper.experiment import Experiment, Report
from keepset.paper.fact_sheets.run import NAME, jobs
from keepset.paper.fact_sheets.tables import fact_sheet_claims, fact_sheet_table, mode_table

EXPERIMENT = Experiment(
    NAME,
    place=82,
    jobs=jobs,
    reports=(
        Report(
            "Fact sheets: fresh documents, beside kvpress's KVzip",
            "eviction",
            fact_sheet_table,
            ("kvpress",),
            beyond=True,
        ),
        Report("Fact sheets: how a pruned document is read", "eviction", mode_table, beyond=True),
    ),
    claims=fact_sheet_claims,
    claims_need=("kvpress",),
)
