"""Stage 10: labelling as a job that can be stopped and gone on with.

    from keepset.jobs import label

    label("data.jsonl", model="smollm2-135m-instruct", out="labels/")      # the same call again goes on

Reading order: ``sources`` (where rows come from) and ``plan`` (cut into shards and groups), ``rules`` (what an answer
rests on), ``labelling`` (rows in, labels and rejects out), ``tables``, ``journal``, ``manifest``, ``folder`` (what is
on disk and when it counts), ``pool``, ``processes``, ``ray_actors``, ``engines`` (workers), ``display``, ``runner``;
``stored`` (a folder as others read it); then ``training`` (a router from labels) and ``held_out`` (how well it does).
"""

from keepset.jobs.engines import open_pool
from keepset.jobs.labelling import Labeller, LabelRow, Reject, label_rows
from keepset.jobs.plan import RowGroup, Shard, ShardPlan, plan_shards
from keepset.jobs.runner import Labelled, Terminated, estimate, label
from keepset.jobs.sources import open_source
from keepset.jobs.stored import label_statistics, verify

__all__ = [
    "LabelRow",
    "Labelled",
    "Labeller",
    "Reject",
    "RowGroup",
    "Shard",
    "ShardPlan",
    "Terminated",
    "estimate",
    "label",
    "label_rows",
    "label_statistics",
    "open_pool",
    "open_source",
    "plan_shards",
    "verify",
]
