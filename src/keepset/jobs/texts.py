"""A folder of texts as rows, and what is made of them as a folder of texts with the same names.

    reports/a.txt             short/a.txt
    reports/2024/b.md    ->   short/2024/b.md
                              short/.keepset/      the job's own folder: manifest, tables, rejects

Every file is a row, whatever it is called: one that is no text is a reject and not passed over, only what is hidden is.
A link could lead anywhere, so it is a reject too.
"""

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from keepset.files import clear_leftovers, refuse_link, writing_file
from keepset.jobs.compressing import CompressedRow
from keepset.jobs.sources import Source, row_line
from keepset.text.jsonl import Line

OWN = ".keepset"
"""The folder of the job, inside the folder of texts that it writes."""


class Found(NamedTuple):
    """A file as it was when the folder was looked through."""

    name: str
    """Its path inside the folder, with slashes."""
    size: int
    changed: int
    wrong: str | None
    """Why it is not read."""


class TextFolder(Source):
    """Every file of a folder and of those inside it, by name."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self.path = path
        self.files = tuple(_files(path))

    def lines(self, first_line: int = 1, start: int = 0) -> Iterator[Line]:
        for number, found in enumerate(self.files[first_line - 1 :], first_line):
            yield self._line(number, found)

    def _line(self, number: int, found: Found) -> Line:
        named = row_line(number, {"id": found.name})
        if found.wrong:
            return Line(number, named.raw, found.wrong)
        try:
            with (self.path / found.name).open("rb") as file:
                status = os.fstat(file.fileno())
                if (status.st_size, status.st_mtime_ns) != (found.size, found.changed):
                    raise ValueError(
                        f"{self.path / found.name}: expected the file to stay as it is while it is worked on, but it "
                        "changed; run the same command again in another folder"
                    )
                text = file.read().decode("utf-8-sig")
        except UnicodeDecodeError as error:
            wrong = f"file: expected text in UTF-8, got byte {error.object[error.start]:#04x} at {error.start}"
            return Line(number, named.raw, wrong)
        except OSError as error:
            return Line(number, named.raw, f"file: expected one that can be read, got: {error.strerror}")
        return row_line(number, {"id": found.name, "text": text})


def _files(folder: Path) -> Iterator[Found]:
    for where, folders, names in os.walk(folder, onerror=_refuse):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        links = [name for name in folders if os.path.islink(os.path.join(where, name))]
        for name in sorted([*links, *names]):
            if not name.startswith("."):
                path = Path(where, name)
                yield _found(path.relative_to(folder).as_posix(), path.lstat())


def _refuse(error: OSError) -> None:
    """A folder that is passed over would be missing from what is made, and nobody would be told."""
    raise ValueError(
        f"{error.filename}: expected a folder that can be read, got: {error.strerror}; make it readable or move it away"
    ) from error


def _found(name: str, status: os.stat_result) -> Found:
    wrong = None
    if stat.S_ISLNK(status.st_mode):
        wrong = "file: expected a text, got a symbolic link"
    elif not stat.S_ISREG(status.st_mode):
        wrong = "file: expected a text, got a device or a pipe"
    elif any(0xD800 <= ord(character) <= 0xDFFF for character in name):
        wrong = "file: expected a name in UTF-8, got other bytes"
        name = name.encode("utf-8", errors="replace").decode()
    return Found(name, status.st_size, status.st_mtime_ns, wrong)


class WrittenTexts:
    """The folder of texts that is made of a ``TextFolder``."""

    def __init__(self, path: Path, source: TextFolder) -> None:
        self.path = path
        self._names = [found.name for found in source.files]

    def clear(self) -> None:
        """Removes what a kill has left of files that were being written."""
        for folder in {Path(name).parent for name in self._names}:
            self._refuse_links(folder)
            clear_leftovers(self.path / folder)

    def place(self, records: Iterable[CompressedRow]) -> None:
        """Writes the texts that are not there; what is there must be the same."""
        for record in records:
            name = self._names[record.line - 1]  # as it was read, not as somebody may have written it into a journal
            path, content = self.path / name, (record.text + "\n").encode("utf-8")
            self._refuse_links(Path(name))
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                with writing_file(path) as temporary:
                    temporary.write_bytes(content)
            elif not path.is_file() or path.read_bytes() != content:
                raise ValueError(
                    f"{path}: expected nothing, or what was kept of {name}, got something else; "
                    "move it away and run the same command again"
                )

    def _refuse_links(self, place: Path) -> None:
        """Neither ``place`` nor a folder above it leads out of the folder."""
        for step in (place, *place.parents):
            if step != Path():
                refuse_link(self.path / step)
