"""Stage 10: labelling as a job that can be stopped and gone on with.

    from keepset.jobs import label

    label("data.jsonl", model="smollm2-135m-instruct", out="labels/")      # the same call again goes on

Reading order: ``plan`` (the input cut into shards), ``rules`` (what an answer rests on), ``labelling`` (rows in, labels
and rejects out: the seam for other runners), ``tables``, ``journal``, ``manifest`` and ``folder`` (what is on disk and
when it counts), ``runner`` (one process); then ``training`` (a router from labels) and ``held_out`` (how well it does).
"""

from keepset.jobs.labelling import Labeller, LabelRow, Reject, label_rows, label_shard
from keepset.jobs.plan import Shard, ShardPlan, plan_shards
from keepset.jobs.runner import Labelled, Terminated, label

__all__ = [
    "LabelRow",
    "Labelled",
    "Labeller",
    "Reject",
    "Shard",
    "ShardPlan",
    "Terminated",
    "label",
    "label_rows",
    "label_shard",
    "plan_shards",
]
