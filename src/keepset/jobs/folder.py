"""The folder of a labelling job, and how it survives a kill at any moment.

    labels/
      manifest.json               what was asked, of which model and data; the finished shards
      README.md                   tells ``datasets.load_dataset`` where the tables are
      data/shard-00000.parquet    labels of a range of lines
      rejects/shard-00000.jsonl   rows of that range that could not be labelled; no file when there are none
      rejects.jsonl               those files, one after the other
      .shard-00001.journal        the shard in work, a line per finished group
      .lock                       held while somebody works here

Every row is done once, because one thing at a time decides:

1. A group of rows is done when its line in the journal is whole. The next start cuts off a torn line and goes on
   with the row after the last whole one.
2. A shard is done when its table is there. Its rejects are written first, then the table, each to a temporary name
   and renamed; then the journal goes. Killed in between, the next start finds all groups in the journal and writes
   both files again, the same bytes under the same names. With the table there, a journal left over is dropped.
3. ``manifest.json`` and ``rejects.jsonl`` decide nothing: they are made from the finished shards at every start and
   kept up after every shard.

Shards share nothing but the folder, so several workers could do them in any order; the lock allows one process.
"""

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

from filelock import FileLock, Timeout

from keepset.files import replacing_file
from keepset.jobs.journal import Journal
from keepset.jobs.labelling import Outcome, Reject
from keepset.jobs.manifest import LabelJob, Manifest, read_manifest
from keepset.jobs.plan import Shard, ShardPlan
from keepset.jobs.tables import ShardNote, read_note, write_table

CARD = """---
configs:
- config_name: labels-{content}
  data_files:
  - split: train
    path: data/*.parquet
---
Labels written by `keepset label`: which blocks of each context the answer depends on. `manifest.json` says of which
data, by which model and how.
"""
"""``datasets`` keeps what it has read by the folder's and the config's name, so another content needs another name."""


class LabelFolder:
    """Where the labels of one job go."""

    def __init__(self, path: Path, job: LabelJob, plan: ShardPlan) -> None:
        self.path = path
        self.job = job
        self.plan = plan
        self.notes: dict[int, ShardNote] = {}
        """Finished shards by number."""

    @contextmanager
    def open(self) -> Iterator[None]:
        """Inside, the folder is this process's alone, and what earlier ones finished is known."""
        lock = FileLock(self.path / ".lock")
        with explained(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            try:
                lock.acquire(timeout=0)
            except Timeout as error:  # before the others: it is an OSError too
                raise ValueError(f"{self.path}: another process is writing labels here; wait for it") from error
        try:
            self._begin()
            yield
        finally:
            lock.release()

    @property
    def labelled(self) -> int:
        """Rows in finished shards."""
        return sum(note.labelled for note in self.notes.values())

    @property
    def rejected(self) -> int:
        """Rejected rows of finished shards."""
        return sum(note.rejected for note in self.notes.values())

    def unfinished(self) -> list[Shard]:
        return [shard for shard in self.plan.shards if shard.number not in self.notes]

    def begun(self, shard: Shard) -> Outcome:
        """What is done of a shard in work."""
        with explained(self.path):
            return self._journal(shard).load()

    def append(self, shard: Shard, outcome: Outcome) -> None:
        """A group of ``shard`` is done."""
        with explained(self.path):
            self._journal(shard).append(outcome)

    def finish(self, shard: Shard) -> None:
        """All groups of ``shard`` are done: its files take the place of its journal."""
        records, rejects = self.begun(shard)
        note = ShardNote(
            file=self._table(shard).relative_to(self.path).as_posix(),
            first_line=shard.first_line,
            last_line=shard.last_line,
            labelled=len(records),
            rejected=len(rejects),
            job=self.job.key,
        )
        with explained(self.path):
            self._write_rejects(shard, rejects)
            write_table(self._table(shard), records, note)
            self._journal(shard).remove()
            self.notes[shard.number] = note
            self._write_manifest()
            if shard.number == max(self.notes):
                with (self.path / "rejects.jsonl").open("ab") as whole:
                    self._copy_rejects(shard, whole)
            else:  # a table in the middle was missing
                self._join_rejects()

    def _begin(self) -> None:
        """Checks that this job may write here, and makes again what is derived from the finished shards."""
        known = read_manifest(self.path / "manifest.json")
        if known is None:
            self._check_empty()
        else:
            self._check_same(known.job)
            self.job = known.job
        with explained(self.path):
            self._find_finished()
            self._write_manifest()  # before anything else: now the folder is this job's
            for name in ("data", "rejects"):
                (self.path / name).mkdir(exist_ok=True)
            self._join_rejects()

    def _check_empty(self) -> None:
        others = sorted(path.name for path in self.path.iterdir() if not path.name.startswith("."))
        if others:
            raise ValueError(
                f"{self.path}: expected an empty folder or one with the manifest.json of an earlier run, "
                f"got {', '.join(others[:5])}"
            )

    def _check_same(self, earlier: LabelJob) -> None:
        differences = earlier.differences(self.job)
        if differences:
            raise ValueError(
                f"{self.path}: expected the job that was begun here, got another one: {'; '.join(differences)}. "
                "Repeat the earlier command or choose another folder"
            )

    def _find_finished(self) -> None:
        for shard in self.plan.shards:
            table = self._table(shard)
            if not table.exists():
                continue
            note = read_note(table)
            if note.job != self.job.key:
                raise ValueError(f"{table}: expected a table of this job, got one of another; delete it")
            self.notes[shard.number] = note
            self._journal(shard).remove()

    def _write_manifest(self) -> None:
        notes = tuple(self.notes[number] for number in sorted(self.notes))
        manifest = Manifest(job=self.job, rows=self.plan.rows, shards=notes)
        text = manifest.model_dump_json(indent=1) + "\n"
        self._write("manifest.json", text)
        self._write("README.md", CARD.format(content=sha256(text.encode()).hexdigest()[:12]))

    def _write_rejects(self, shard: Shard, rejects: list[Reject]) -> None:
        if rejects:
            self._write(f"rejects/{_name(shard)}.jsonl", "".join(reject.to_json() + "\n" for reject in rejects))

    def _write(self, name: str, text: str) -> None:
        with replacing_file(self.path / name) as temporary:
            temporary.write_bytes(text.encode("utf-8"))

    def _join_rejects(self) -> None:
        with replacing_file(self.path / "rejects.jsonl") as temporary, temporary.open("wb") as whole:
            for number in sorted(self.notes):
                self._copy_rejects(self.plan.shards[number], whole)

    def _copy_rejects(self, shard: Shard, whole: BinaryIO) -> None:
        if self.notes[shard.number].rejected:
            with (self.path / "rejects" / f"{_name(shard)}.jsonl").open("rb") as part:
                shutil.copyfileobj(part, whole)

    def _journal(self, shard: Shard) -> Journal:
        return Journal(self.path / f".{_name(shard)}.journal")

    def _table(self, shard: Shard) -> Path:
        return self.path / "data" / f"{_name(shard)}.parquet"


@contextmanager
def explained(folder: Path) -> Iterator[None]:
    """A full disk or a missing permission stops the job; says that nothing is lost and how to go on."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(
            error.errno or errno.EIO,
            f"{reason}; what was finished stays: solve that and run the same command again to go on",
            error.filename or str(folder),
        ) from error


def _name(shard: Shard) -> str:
    return f"shard-{shard.number:05d}"
