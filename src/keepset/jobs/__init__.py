"""Stage 10: labelling and compressing as jobs that can be stopped and gone on with.

    from keepset.jobs import compress_data, label

    label("data.jsonl", model="smollm2-135m-instruct", out="labels/")      # the same call again goes on
    compress_data("reports/", out="short/", budget=0.25, workers=2)

Reading order: ``sources`` (where rows come from) and ``plan`` (cut into shards and groups), ``outcome`` (record or
reject), ``rules`` (what an answer rests on), ``labelling`` and ``compressing`` (rows in, records and rejects out),
``kinds`` (what differs between the two), ``tables``, ``journal``, ``manifest``, ``folder`` (what is on disk and when it
counts), ``pool``, ``processes``, ``ray_actors``, ``engines`` (workers), ``display``, ``runner``; ``label_data``,
``texts`` and ``compress_data`` (the two commands); ``stored`` (a folder of labels as others read it); then ``training``
(a router from labels) and ``held_out`` (how well it does).
"""

from keepset.jobs.compress_data import compress_data
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
