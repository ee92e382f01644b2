"""Many texts made short: the same job as labelling, so the same promises, with files for a folder of texts."""

import errno
import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from keepset.jobs import engines, label, verify
from keepset.jobs.compressing import CompressedRow
from keepset.jobs.labelling import Loaded
from keepset.jobs.tables import columns_table, schema_of
from keepset.jobs.texts import OWN
from tests.background import ForkedProcesses
from tests.jobs.compress_work import BUDGET, Compress, rejects, text
from tests.jobs.conftest import Write, row
from tests.jobs.test_pool import ENGINES
from tests.jobs.test_resume import contents
from tests.tiny_compressor import TEXT, tiny_compressor


def short(given: str, question: str | None = None) -> str:
    return tiny_compressor().compress(given, BUDGET, question).text


def test_a_folder_of_texts_becomes_one_with_the_same_names(compress: Compress, reports: Path, tmp_path: Path) -> None:
    (reports / "with-a-mark.txt").write_bytes(b"\xef\xbb\xbf" + TEXT.encode())
    (reports / ".hidden").write_text(TEXT)
    out = tmp_path / "short"
    done = compress(reports, out)
    assert (done.folder, done.rows, done.rejected, done.new) == (out / OWN, 22, 1, 23)
    written = {name for name in contents(out) if not name.startswith(OWN)}
    read = {path.relative_to(reports).as_posix() for path in reports.rglob("*.txt")}
    assert written == read
    for name in read:
        given = (reports / name).read_text(encoding="utf-8-sig")
        assert (out / name).read_text(encoding="utf-8") == short(given) + "\n"
    assert rejects(out / OWN) == {"scan.pdf": "file: expected text in UTF-8, got byte 0xff at 8"}


def test_what_is_no_text_is_a_reject(compress: Compress, tmp_path: Path) -> None:
    data, out, secret = tmp_path / "data", tmp_path / "out", tmp_path / "secret"
    data.mkdir()
    secret.mkdir()
    (secret / "key.txt").write_text("The key is under the mat.")
    (data / "good.txt").write_text(TEXT)
    (data / "empty.txt").write_text("")
    (data / "link.txt").symlink_to(secret / "key.txt")
    (data / "linked").symlink_to(secret)
    os.mkfifo(data / "pipe")
    (data / os.fsdecode(b"name-\xff.txt")).write_text(TEXT)
    (data / ("long" * 62 + ".txt")).write_text(TEXT)
    assert compress(data, out).rows == 2
    assert sorted(path.name for path in out.iterdir() if path.name != OWN) == ["good.txt", "long" * 62 + ".txt"]
    assert rejects(out / OWN) == {
        "empty.txt": "text: expected some text, got ''",
        "link.txt": "file: expected a text, got a symbolic link",
        "linked": "file: expected a text, got a symbolic link",
        "pipe": "file: expected a text, got a device or a pipe",
        "name-?.txt": "file: expected a name in UTF-8, got other bytes",
    }
    assert not any(b"under the mat" in content for content in contents(out).values())


def test_a_folder_that_cannot_be_read_is_not_passed_over(
    compress: Compress, reports: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (reports / "closed").mkdir()
    listed = os.scandir

    def refused(path: Any) -> Any:
        if Path(path).name == "closed":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(os, "scandir", refused)
    with pytest.raises(ValueError, match="closed: expected a folder that can be read, got: Permission denied; make it"):
        compress(reports, tmp_path / "out")


def as_jsonl(folder: Path, rows: list[dict[str, Any]]) -> Path:
    (folder / "data.jsonl").write_text("".join(json.dumps(found) + "\n" for found in rows))
    return folder / "data.jsonl"


def as_gzip(folder: Path, rows: list[dict[str, Any]]) -> Path:
    path = folder / "named-like-nothing"
    path.write_bytes(gzip.compress(as_jsonl(folder, rows).read_bytes()))
    return path


def as_parquet(folder: Path, rows: list[dict[str, Any]]) -> Path:
    pq.write_table(pa.Table.from_pylist(rows), folder / "data.parquet")
    return folder / "data.parquet"


@pytest.mark.parametrize("stored", [as_jsonl, as_gzip, as_parquet])
def test_a_table_becomes_tables(compress: Compress, tmp_path: Path, stored: Callable[[Path, Any], Path]) -> None:
    rows = [{"body": text(i), "id": f"report-{i}", "price": 3} for i in range(5)] + [{"body": " ", "id": "blank"}]
    out, question = tmp_path / "out", "Who ran the pier?"
    done = compress(stored(tmp_path, rows), out, columns={"text": "body"}, question=question, shard_rows=4)
    assert (done.folder, done.rows, done.rejected) == (out, 5, 1)
    tables = [pq.read_table(out / "data" / f"shard-0000{i}.parquet") for i in range(2)]
    assert tables[0].schema.names == schema_of(CompressedRow).names
    for given, found in zip(rows, pa.concat_tables(tables).to_pylist(), strict=False):
        expected = tiny_compressor().compress(given["body"], BUDGET, question)
        assert found["id"] == given["id"]
        assert (found["text"], found["tokens_before"], found["tokens_after"]) == (
            expected.text,
            expected.tokens_before,
            expected.tokens_after,
        )
        assert "".join(given["body"][start:stop] for start, stop in found["kept"]).strip() == found["text"]
    assert rejects(out) == {"blank": "text: expected some text, got ' '"}


def test_the_page_shows_the_columns() -> None:
    page = (Path(__file__).parents[2] / "docs" / "compress.md").read_text()
    assert columns_table(CompressedRow) in page


@pytest.mark.parametrize("engine", ENGINES)
def test_texts_are_the_same_whoever_makes_them(
    compress: Compress, reports: Path, tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With local workers that are forks; with fresh interpreters labels are made in tests/jobs/test_pool.py."""
    monkeypatch.setattr(engines, "Processes", ForkedProcesses)
    compress(reports, tmp_path / "one", shard_rows=10)
    done = compress(reports, tmp_path / "two", shard_rows=10, workers=2, engine=engine)
    assert (done.rows, done.rejected, done.new) == (21, 1, 22)
    assert contents(tmp_path / "two") == contents(tmp_path / "one")


def test_another_job_is_refused_with_what_differs(compress: Compress, reports: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    compress(reports, out)
    before = contents(out)
    for options, said in (
        ({"budget": 0.5}, "budget was '0.4 share of tokens', is '0.5 share of tokens'"),
        ({"budget": 50}, "budget was '0.4 share of tokens', is '50.0 tokens'"),
        ({"question": "Who?"}, "question was None, is 'Who[?]'"),
        ({"shard_rows": 3}, "shard_rows was 256, is 3"),
    ):
        with pytest.raises(ValueError, match=said):
            compress(reports, out, **options)
    (reports / "new.txt").write_text(TEXT)
    with pytest.raises(ValueError, match=r"data_sha256 was '\w+' reports, is '\w+' reports"):
        compress(reports, out)
    assert contents(out) == before


def test_labels_and_texts_are_not_taken_for_each_other(
    compress: Compress, tiny: Loaded, write: Write, tmp_path: Path
) -> None:
    data = write(row(0) | {"text": TEXT})
    label(data, tiny, tmp_path / "labels")
    compress(data, tmp_path / "texts")
    with pytest.raises(ValueError, match=r"expected one by 'keepset compress', got 'keepset label'\. Choose another"):
        compress(data, tmp_path / "labels")
    with pytest.raises(ValueError, match="expected one by 'keepset label', got 'keepset compress'"):
        verify(tmp_path / "texts")


def test_mistakes_are_one_clear_line(compress: Compress, reports: Path, tmp_path: Path) -> None:
    nothing = tmp_path / "nothing"
    nothing.mkdir()
    (tmp_path / "report.txt").write_text(TEXT)
    occupied = tmp_path / "occupied"
    occupied.mkdir()
    (occupied / "thesis.txt").write_text("years of work")
    for data, out, options, said in (
        (nothing, "out", {}, "nothing: expected at least one row, got none"),
        (reports, "reports/short", {}, "out: expected a folder outside of"),
        (reports, "reports", {}, "out: expected a folder outside of"),
        (reports, "occupied", {}, r"expected an empty folder .* got thesis\.txt"),
        (reports, "out", {"columns": {"text": "body"}}, "expected no columns and no split"),
        (reports, "out", {"question": " "}, "question: expected some text"),
        (reports, "out", {"budget": "much"}, "budget: expected a share of the tokens"),
        (reports, "out", {"engine": "spark"}, "engine: expected one of local, ray"),
        (tmp_path / "report.txt", "out", {}, "a single text goes to standard output"),
        (None, "out", {}, "data: expected a path, got NoneType"),
        ("", "out", {}, "data: expected a path, got ''"),
        (tmp_path / "nowhere", "out", {}, "nowhere: expected a JSONL or Parquet file"),
    ):
        with pytest.raises(ValueError, match=said):
            compress(data, tmp_path / out, **options)
    assert [path.name for path in occupied.iterdir() if path.name != OWN] == ["thesis.txt"]
    assert (occupied / "thesis.txt").read_text() == "years of work"


def test_nothing_to_compress_is_an_error(compress: Compress, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.bin").write_bytes(b"\xff")
    for _ in range(2):
        with pytest.raises(ValueError, match=r"expected rows that can be compressed, got 1 rejects, see .*: file: exp"):
            compress(tmp_path / "data", tmp_path / "out")
