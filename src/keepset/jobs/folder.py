"""The folder of a job, and how it survives a kill at any moment.

    labels/
      manifest.json               what was asked, of which model and data; the finished shards
      README.md                   tells ``datasets.load_dataset`` where the tables are
      data/shard-00000.parquet    records of a range of lines: labels, or short texts
      rejects/shard-00000.jsonl   rows of that range of which nothing could be made; no file when there are none
      rejects.jsonl               those files, one after the other
      .shard-00001.journal        the shard in work, a line per finished group
      .lock                       held while somebody works here

Every row is done once, because one thing at a time decides:

1. A group of rows is done when its line in the journal is whole: job, place and checksum fit. Whatever else stands
   there is dropped, and its rows are done again.
2. A shard is done when ``manifest.json`` says so and its table is there. Its rejects are written first (and the texts,
   where files are to come out), then the table, then the manifest, each to a temporary name and renamed; then the
   journal goes. Killed in between, the next start finds all groups in the journal and writes the same bytes under the
   same names.
3. ``rejects.jsonl`` decides nothing: it is made at every start and kept up after every shard, as far as shards are done
   without a gap.

The manifest has the sha256 of every table and file of rejects, and of itself. One process writes, whoever does the
rows.
"""

import errno
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from hashlib import sha256 as sha256_of
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from keepset.files import alone_in, clear_leftovers, open_appending, refuse_link, replacing_file, write_text
from keepset.jobs.journal import Journal
from keepset.jobs.kinds import J, Kind
from keepset.jobs.manifest import Manifest, check_shard, read_manifest
from keepset.jobs.outcome import Outcome, R, Record, Reject
from keepset.jobs.plan import RowGroup, Shard, ShardPlan
from keepset.jobs.tables import FinishedShard, ShardNote, read_note, read_rows, write_table

CARD = """---
configs:
- config_name: {kind}-{content}
  data_files:
  - split: train
    path: data/*.parquet
---
{about}"""
"""``datasets`` keeps what it has read by the folder's and the config's name, so another content needs another name."""


R_contra = TypeVar("R_contra", bound=Record, contravariant=True)


class Files(Protocol[R_contra]):
    """What a job makes, as files of their own beside the tables."""

    path: Path

    def clear(self) -> None:
        """Removes what a kill has left of files that were being written."""

    def place(self, records: Iterable[R_contra]) -> None:
        """Writes the files of ``records`` that are not there; one that is there must be the same."""


class JobFolder(Generic[J, R]):
    """Where what one job makes goes; ``files`` is where it goes as files as well."""

    def __init__(self, path: Path, kind: Kind[J, R], job: J, plan: ShardPlan, files: Files[R] | None = None) -> None:
        self.path = path
        self.kind = kind
        self.job = job
        self.plan = plan
        self.files = files
        self.finished: dict[int, FinishedShard] = {}
        """By number of the shard."""
        self._begun: dict[int, dict[int, int]] = {}
        """Shard in work -> first rows of the groups that are done, and how many rows of each were rejected."""
        self._joined = 0
        """Shards whose rejects are in ``rejects.jsonl``."""

    @contextmanager
    def open(self) -> Iterator[None]:
        """Inside, the folder is this process's alone, and what earlier ones finished is known."""
        with ExitStack() as stack:
            with explained(self.path):
                self._refuse_links()
                stack.enter_context(alone_in(self.path, self.kind.doing))
            self._begin()
            yield

    @property
    def records(self) -> int:
        """Rows of which something was made."""
        return self.done - self.rejected

    @property
    def rejected(self) -> int:
        in_work = sum(sum(groups.values()) for groups in self._begun.values())
        return sum(shard.rejected for shard in self.finished.values()) + in_work

    @property
    def done(self) -> int:
        """Rows that need no more work, in finished shards and in journals."""
        shards = self.plan.shards
        in_work = sum(shards[number].group_rows(first) for number, groups in self._begun.items() for first in groups)
        return sum(shard.records + shard.rejected for shard in self.finished.values()) + in_work

    def first_reason(self) -> str:
        """Why the first of the rejects is one."""
        with (self.path / "rejects.jsonl").open("rb") as file:
            return str(json.loads(file.readline())["reason"])

    def groups(self) -> Iterator[RowGroup]:
        """What is left to do."""
        left = [shard for shard in self.plan.shards if shard.number not in self.finished]
        return self.plan.groups(left, {number: frozenset(groups) for number, groups in self._begun.items()})

    def append(self, group: RowGroup, outcome: Outcome[R]) -> None:
        """A group is done; with the last one of a shard, its files take the place of its journal."""
        shard = self.plan.shards[group.shard]
        with explained(self.path):
            self._journal(shard).append(group.first_row, outcome)
        self._begun.setdefault(shard.number, {})[group.first_row] = len(outcome.rejects)
        self._finish_if_done(shard)

    def _finish_if_done(self, shard: Shard) -> None:
        if sum(map(shard.group_rows, self._begun[shard.number])) < shard.rows:
            return
        with explained(self.path):
            groups = self._journal(shard).load().values()
            records = [record for group in groups for record in group.records]
            rejects = [reject for group in groups for reject in group.rejects]
            note = ShardNote(
                file=self._table(shard).relative_to(self.path).as_posix(),
                first_line=shard.first_line,
                last_line=shard.last_line,
                records=len(records),
                rejected=len(rejects),
                job=self.job.key,
            )
            rejects_sha256 = self._write_rejects(note, rejects)
            if self.files:
                self.files.place(records)
            sha256 = write_table(self._table(shard), self.kind.record, records, note)
            self.finished[shard.number] = FinishedShard(
                **note.model_dump(), sha256=sha256, rejects_sha256=rejects_sha256
            )
            self._write_manifest()
            self._journal(shard).remove()
            del self._begun[shard.number]
            self._join_rejects()

    def _begin(self) -> None:
        """Checks that this job may write here, and finds out what is done."""
        known = read_manifest(self.path / "manifest.json", self.kind)
        if known is None:
            check_empty(self.path)
            if self.files:
                check_empty(self.files.path)
        else:
            self._check_same(known.job)
            self.job = known.job
        with explained(self.path):
            if self.files:
                self.files.clear()
            self._find_finished(known.shards if known else ())
            self._write_manifest()  # before anything else: now the folder is this job's
            for folder in (self.path, self.path / "data", self.path / "rejects"):
                folder.mkdir(exist_ok=True)
                clear_leftovers(folder)
            (self.path / "rejects.jsonl").unlink(missing_ok=True)
            self._join_rejects()
            self._find_begun()

    def _refuse_links(self) -> None:
        """What is written through a link ends up elsewhere. The folder itself may be one: its user chose that."""
        for folder in (self.path, self.path / "data", self.path / "rejects"):
            if folder.is_dir():
                for path in folder.iterdir():
                    refuse_link(path)

    def _check_same(self, earlier: J) -> None:
        differences = earlier.differences(self.job)
        if differences:
            raise ValueError(
                f"{self.path}: expected the job that was begun here, got another one: {'; '.join(differences)}. "
                "Repeat the earlier command or choose another folder"
            )

    def _find_finished(self, known: tuple[FinishedShard, ...]) -> None:
        """Shards of the manifest whose tables are there, whole; a table that it does not know is made again.

        A text that is gone comes back from its table.
        """
        by_file = {shard.file: shard for shard in known}
        for shard in self.plan.shards:
            table = self._table(shard)
            if not table.exists():
                continue
            note = by_file.get(table.relative_to(self.path).as_posix())
            if note is not None:
                check_shard(self.path, note, self.kind.command)
                if self.files:
                    self.files.place(read_rows(table, self.kind.record))
                self.finished[shard.number] = note
            elif read_note(table).job != self.job.key:
                raise ValueError(f"{table}: expected a table of this job, got one of another; delete it")

    def _find_begun(self) -> None:
        """What journals hold; those of other jobs, and of shards that are finished, go."""
        unfinished = {_journal_name(shard): shard for shard in self.plan.shards if shard.number not in self.finished}
        for path in sorted(self.path.glob(".shard-*.journal")):
            shard = unfinished.get(path.name)
            groups = self._journal(shard).load() if shard else {}
            if shard is None or not groups:
                path.unlink()
                continue
            self._begun[shard.number] = {first: len(outcome.rejects) for first, outcome in groups.items()}
            self._finish_if_done(shard)

    def _write_manifest(self) -> None:
        finished = tuple(self.finished[number] for number in sorted(self.finished))
        text = Manifest(command=self.kind.command, job=self.job, rows=self.plan.rows, shards=finished).text()
        write_text(self.path / "manifest.json", text)
        content = sha256_of(text.encode()).hexdigest()[:12]
        card = CARD.format(kind=self.kind.name, content=content, about=self.kind.about)
        write_text(self.path / "README.md", card)

    def _write_rejects(self, note: ShardNote, rejects: list[Reject]) -> str | None:
        """The sha256 of the file; None when there is none."""
        path = self.path / note.rejects_file
        if not rejects:
            path.unlink(missing_ok=True)
            return None
        text = "".join(reject.to_json() + "\n" for reject in rejects).encode("utf-8")
        with replacing_file(path) as temporary:
            temporary.write_bytes(text)
        return sha256_of(text).hexdigest()

    def _join_rejects(self) -> None:
        """Adds the rejects of the shards that are next in order."""
        with open_appending(self.path / "rejects.jsonl") as whole:
            while self._joined in self.finished:
                if self.finished[self._joined].rejected:
                    with (self.path / self.finished[self._joined].rejects_file).open("rb") as part:
                        shutil.copyfileobj(part, whole)
                self._joined += 1
            whole.flush()
            os.fsync(whole.fileno())

    def _journal(self, shard: Shard) -> Journal[R]:
        return Journal(self.path / _journal_name(shard), self.job.key, shard, self.kind.record)

    def _table(self, shard: Shard) -> Path:
        return self.path / "data" / f"{_name(shard)}.parquet"


def check_empty(folder: Path) -> None:
    """Nothing is there but what is hidden."""
    others = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    if others:
        raise ValueError(
            f"{folder}: expected an empty folder or one with the manifest.json of an earlier run, "
            f"got {', '.join(others[:5])}"
        )


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


def _journal_name(shard: Shard) -> str:
    return f".{_name(shard)}.journal"


def _name(shard: Shard) -> str:
    return f"shard-{shard.number:05d}"
