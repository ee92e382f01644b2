"""Stage 10: labelling as a job that can be stopped and gone on with.

    from keepset.jobs import label

    label("data.jsonl", model="smollm2-135m-instruct", out="labels/")      # the same call again goes on

Reading order: ``sources`` (where rows come from) and ``plan`` (cut into shards and groups), ``rules`` (what an answer
rests on), ``labelling`` (rows in, labels and rejects out), ``tables``, ``journal``, ``manifest``, ``folder`` (what is
on disk and when it counts), ``pool``, ``processes``, ``ray_actors``, ``engines`` (workers), ``display``, ``runner``;
``stored`` (a folder as others read it); then ``training`` (a router from labels) and ``held_out`` (how well it does).
"""

from typing import TYPE_CHECKING

from keepset.lazily import on_first_use

if TYPE_CHECKING:
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

_HOMES = {
    "LabelRow": "keepset.jobs.labelling",
    "Labelled": "keepset.jobs.runner",
    "Labeller": "keepset.jobs.labelling",
    "Reject": "keepset.jobs.labelling",
    "RowGroup": "keepset.jobs.plan",
    "Shard": "keepset.jobs.plan",
    "ShardPlan": "keepset.jobs.plan",
    "Terminated": "keepset.jobs.runner",
    "estimate": "keepset.jobs.runner",
    "label": "keepset.jobs.runner",
    "label_rows": "keepset.jobs.labelling",
    "label_statistics": "keepset.jobs.stored",
    "open_pool": "keepset.jobs.engines",
    "open_source": "keepset.jobs.sources",
    "plan_shards": "keepset.jobs.plan",
    "verify": "keepset.jobs.stored",
}
# A worker is a process of its own and imports this first: it loads what its work needs and nothing else.
__getattr__ = on_first_use(__name__, _HOMES)
