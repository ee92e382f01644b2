"""Compressing many texts: ``keepset compress FOLDER --out SHORT``, the job that labelling is, with other work."""

from collections.abc import Mapping
from pathlib import Path

import torch

from keepset.compression.compressor import SHIPPED, TextBudget, text_budget
from keepset.files import as_path, refuse_link
from keepset.jobs.compressing import CompressorIdentity, StartCompressing
from keepset.jobs.kinds import TEXTS, CompressJob
from keepset.jobs.plan import ShardPlan, plan_shards
from keepset.jobs.runner import SHARD_ROWS, Finished, Where, run_job, terminable
from keepset.jobs.sources import GZIP, HUB, PARQUET, Source, open_source
from keepset.jobs.texts import OWN, TextFolder, WrittenTexts
from keepset.routers.text import TextRouter, load_text_router
from keepset.text.jsonl import BYTE_ORDER_MARK, DOCUMENT
from keepset.text.prompt import check_text
from keepset.versions import package_versions


def compress_data(
    data: str | Path,
    out: str | Path,
    budget: TextBudget,
    question: str | None = None,
    shard_rows: int = SHARD_ROWS,
    device: str | torch.device = "cpu",
    workers: int | None = None,
    engine: str = "local",
    address: str | None = None,
    columns: Mapping[str, str] | None = None,
    split: str | None = None,
    router: TextRouter | str | Path = SHIPPED,
    reader: str | None = None,
) -> Finished:
    """Every text of a folder, as files of the same names in ``out``; or of a table, as Parquet tables there.

    A table is JSONL (gzip or not), Parquet or ``datasets:NAME``, of which ``split`` is taken; its rows have ``text``
    and, if wanted, ``id``, and ``columns`` says which of them have other names. Every text has the ``budget`` for
    itself. ``workers``, ``engine`` and ``address`` as for ``label``; ``router`` and ``reader`` as for ``Compressor``.
    The same call again goes on where the last one stopped.
    """
    where = Where(workers, engine, address, str(device))
    allowed = text_budget(budget)
    if question is not None:
        check_text("question", question)
    with terminable():
        source, place, files = _opened(data, as_path("out", out), columns, split)
        plan = plan_shards(source, shard_rows)
        loaded = router if isinstance(router, TextRouter) else load_text_router(Path(router))
        start = StartCompressing(loaded, reader, allowed, question, dict(columns or {}), str(device))

        def job(identity: CompressorIdentity) -> CompressJob:
            return compress_job(plan, start, identity, shard_rows)

        return run_job(TEXTS, plan, start, job, place, where, files)


def compress_job(
    plan: ShardPlan, start: StartCompressing, identity: CompressorIdentity, shard_rows: int
) -> CompressJob:
    """What is done to the texts of ``plan`` by workers that ``start`` makes and that say they are ``identity``."""
    return CompressJob(
        data=Path(plan.source.name).name,
        data_sha256=plan.sha256,
        columns=dict(start.columns),
        reader=start.reader or start.router.reads.name,
        **identity._asdict(),
        budget=f"{start.budget.amount} {start.budget.unit}",
        question=start.question,
        shard_rows=shard_rows,
        versions=package_versions(),
    )


def _opened(
    data: str | Path, out: Path, columns: Mapping[str, str] | None, split: str | None
) -> tuple[Source, Path, WrittenTexts | None]:
    """The texts, the folder of the job, and where files go, if any do."""
    path = as_path("data", data)
    if not path.is_dir():
        _check_table(data)
        return open_source(data, columns, split, DOCUMENT), out, None
    if columns or split:
        raise ValueError(f"{data}: expected no columns and no split, because a folder of texts has none, got some")
    if out.resolve().is_relative_to(path.resolve()):
        raise ValueError(
            f"out: expected a folder outside of {data}, because what is written there would be read the next time, "
            f"got {out}"
        )
    refuse_link(out / OWN)
    source = TextFolder(path)
    return source, out / OWN, WrittenTexts(out, source)


def _check_table(data: str | Path) -> None:
    """A single text is no table, though its lines would all be rejects."""
    path = Path(data)
    if str(data).startswith(HUB) or not path.is_file() or ".json" in path.name:
        return
    with path.open("rb") as file:
        begins = file.read(1024)
    rows = begins.removeprefix(BYTE_ORDER_MARK).lstrip().startswith(b"{")
    if not rows and not begins.startswith((GZIP, PARQUET)):
        raise ValueError(
            f"{path}: expected a folder of texts, JSONL or Parquet for a job with an output folder, got another file; "
            f"a single text goes to standard output: keepset compress {path.name} > short.txt"
        )
