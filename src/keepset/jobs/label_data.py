"""Labelling a data set: ``keepset.label`` and ``keepset label``."""

from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import cast

import torch
from rich.console import Console

from keepset.files import as_path
from keepset.jobs.display import expectation
from keepset.jobs.engines import open_pool
from keepset.jobs.kinds import LABELS, LabelJob
from keepset.jobs.labelling import Loaded, ModelIdentity, StartLabelling, model_name
from keepset.jobs.plan import GROUP, RowGroup, ShardPlan, plan_shards
from keepset.jobs.rules import RULES
from keepset.jobs.runner import SHARD_ROWS, Finished, Where, run_job, terminable
from keepset.jobs.sources import open_source
from keepset.jobs.stored import check_labels, stored_rows
from keepset.labels.support import SupportEffort, check_support_effort
from keepset.models.quantize import Quantize, check_quantize
from keepset.terminal import print_line
from keepset.versions import package_versions


def label(
    data: str | Path,
    model: str | Path | Loaded,
    out: str | Path,
    blocks: str | int = "sentence",
    effort: str = "evidence",
    shard_rows: int = SHARD_ROWS,
    device: str | torch.device = "cpu",
    quantize: Quantize | None = None,
    workers: int | None = None,
    engine: str = "local",
    address: str | None = None,
    columns: Mapping[str, str] | None = None,
    split: str | None = None,
) -> Finished:
    """Evidence sets, effects and attention for every row of a data set, as Parquet tables in ``out``.

    ``data`` is JSONL (gzip or not), Parquet, ``-`` for standard input, the folder of a data set or ``datasets:NAME``,
    of which ``split`` is taken. A row is ``context`` (or ``blocks``), ``question``, ``answer`` and, if wanted,
    ``candidates`` and ``id``; ``columns`` says which of them have other names in the data. ``model`` is anything
    ``load_model`` takes, with its ``quantize``, or a model and its tokenizer, which stay on their device. ``blocks`` is
    sentence, paragraph, line or a number of tokens; ``effort`` evidence, exact, grouped or certified.

    ``workers`` processes share the rows, each with a model of its own; with ``engine`` ray they are actors of the Ray
    cluster at ``address``, or of this machine. The same call again goes on where the last one stopped.
    """
    where = Where(workers, engine, address, str(device))
    check_support_effort(effort)
    check_quantize(quantize)
    with terminable():
        plan = plan_shards(open_source(data, columns, split), shard_rows)
        start = StartLabelling(model, blocks, cast(SupportEffort, effort), dict(columns or {}), str(device), quantize)

        def job(identity: ModelIdentity) -> LabelJob:
            return label_job(plan, start, identity, shard_rows)

        done = run_job(LABELS, plan, start, job, as_path("out", out), where)
    _warn_without_evidence(done)
    return done


def _warn_without_evidence(done: Finished) -> None:
    """Labels that say of every answer that it rests on nothing are labels, but seldom what was wanted."""
    if not any(row.evidence for row in stored_rows(done.folder, check_labels(done.folder))):
        warning = (
            f"{done.folder}: none of the {done.rows:,} answers rests on its context. Are context, question and answer "
            "the right columns, and can the model read them?"
        )
        print_line(Console(stderr=True), warning)


def label_job(plan: ShardPlan, start: StartLabelling, identity: ModelIdentity, shard_rows: int) -> LabelJob:
    """What is done to the rows of ``plan`` by workers that ``start`` makes and that say they are ``identity``."""
    return LabelJob(
        data=Path(plan.source.name).name,
        data_sha256=plan.sha256,
        columns=dict(start.columns),
        model=model_name(start.model),
        **identity._asdict(),
        blocks=str(start.blocks),
        effort=start.effort,
        rule=RULES,
        shard_rows=shard_rows,
        versions=package_versions(),
    )


def estimate(
    data: str | Path,
    model: str | Path | Loaded,
    blocks: str | int = "sentence",
    effort: str = "evidence",
    device: str | torch.device = "cpu",
    quantize: Quantize | None = None,
    workers: int | None = None,
    columns: Mapping[str, str] | None = None,
    split: str | None = None,
) -> str:
    """What labelling ``data`` would take, from a group of rows spread over it; writes nothing."""
    check_support_effort(effort)
    plan = plan_shards(open_source(data, columns, split), SHARD_ROWS)
    start = StartLabelling(model, blocks, cast(SupportEffort, effort), dict(columns or {}), str(device), quantize)
    with open_pool(start, "local", None) as pool:
        ((group, done),) = pool.run([sample(plan)])
    if not done.outcome.records:
        raise ValueError(
            f"{plan.source.name}: expected rows that can be labelled, got rejects for all of {len(group.lines)} spread "
            f"over it; the first one, line {done.outcome.rejects[0].line}: {done.outcome.rejects[0].reason}"
        )
    return f"{plan.source.name}: {expectation(done, workers or 1, plan.rows)} for {plan.rows:,} rows"


def sample(plan: ShardPlan) -> RowGroup:
    """A group of rows from all over the data."""
    rows = (line for line in plan.source.lines() if line.content)
    step = max(1, plan.rows // GROUP)
    return RowGroup(shard=0, first_row=0, lines=tuple(islice(rows, step // 2, None, step))[:GROUP])
