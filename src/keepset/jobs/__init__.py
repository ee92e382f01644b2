"""Stage 10: labelling and compressing as jobs that can be stopped and gone on with.

    from keepset.jobs import compress_data, label

    label("data.jsonl", model="smollm2-135m-instruct", out="labels/")      # the same call again goes on
    compress_data("reports/", out="short/", budget=0.25, workers=2)

Reading order: ``sources`` (where rows come from) and ``plan`` (cut into shards and groups), ``outcome`` (record or
reject), ``rules`` (what an answer rests on), ``labelling`` and ``compressing`` (rows in, records and rejects out),
``kinds`` (what differs between the two), ``tables``, ``journal``, ``manifest``, ``folder`` (what is on disk and when it
counts), ``pool``, ``processes``, ``ray_actors``, ``engines`` (workers), ``display``, ``runner``; ``label_data``,
``texts`` and ``compress_many`` (the two commands); ``stored`` (a folder of labels as others read it); then ``training``
(a router from labels) and ``held_out`` (how well it does).
"""

from typing import TYPE_CHECKING

from keepset.lazily import on_first_use

if TYPE_CHECKING:
    from keepset.jobs.compress_many import compress_data
    from keepset.jobs.engines import open_pool
    from keepset.jobs.label_data import estimate, label
    from keepset.jobs.labelling import Labeller, LabelRow, label_rows
    from keepset.jobs.outcome import Reject
    from keepset.jobs.plan import RowGroup, Shard, ShardPlan, plan_shards
    from keepset.jobs.runner import Finished, Terminated
    from keepset.jobs.sources import open_source
    from keepset.jobs.stored import label_statistics, verify

__all__ = [
    "Finished",
    "LabelRow",
    "Labeller",
    "Reject",
    "RowGroup",
    "Shard",
    "ShardPlan",
    "Terminated",
    "compress_data",
    "estimate",
    "label",
    "label_rows",
    "label_statistics",
    "open_pool",
    "open_source",
    "plan_shards",
    "verify",
]

_HOMES = {
    "Finished": "keepset.jobs.runner",
    "LabelRow": "keepset.jobs.labelling",
    "Labeller": "keepset.jobs.labelling",
    "Reject": "keepset.jobs.outcome",
    "RowGroup": "keepset.jobs.plan",
    "Shard": "keepset.jobs.plan",
    "ShardPlan": "keepset.jobs.plan",
    "Terminated": "keepset.jobs.runner",
    "compress_data": "keepset.jobs.compress_many",
    "estimate": "keepset.jobs.label_data",
    "label": "keepset.jobs.label_data",
    "label_rows": "keepset.jobs.labelling",
    "label_statistics": "keepset.jobs.stored",
    "open_pool": "keepset.jobs.engines",
    "open_source": "keepset.jobs.sources",
    "plan_shards": "keepset.jobs.plan",
    "verify": "keepset.jobs.stored",
}
# A worker is a process of its own and imports this first: it loads what its work needs and nothing else.
__getattr__ = on_first_use(__name__, _HOMES)
