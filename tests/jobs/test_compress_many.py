"""Many texts made short: the same job as labelling, so the same promises, with files for a folder of texts."""

import gzip
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from keepset.jobs import Finished, compress_data, label, verify
from keepset.jobs.compressing import CompressedRow, CompressWorker
from keepset.jobs.folder import JobFolder
from keepset.jobs.journal import Journal
from keepset.jobs.labelling import Loaded
from keepset.jobs.tables import columns_table, schema_of
from keepset.jobs.texts import OWN
from tests.jobs.conftest import Write, row
from tests.jobs.test_pool import ENGINES
from tests.jobs.test_resume import Killed, contents, kill_at_every_step
from tests.tiny_compressor import TEXT, save_reader, tiny_compressor, tiny_router

BUDGET = 0.4


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_reader(tmp_path_factory.mktemp("reader")))


@pytest.fixture
def compress(reader: str) -> Callable[..., Finished]:
    def run(data: Path, out: Path, **options: Any) -> Finished:
        return compress_data(data, out, **({"budget": BUDGET} | options), router=tiny_router(), reader=reader)

    return run


def text(i: int) -> str:
    return TEXT.replace("1931", f"{1900 + i}")


def short(given: str, question: str | None = None) -> str:
    return tiny_compressor().compress(given, BUDGET, question).text


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    """21 texts in three folders, and one file that is none."""
    folder = tmp_path / "reports"
    for i in range(21):
        path = folder / ("", "2023", "2023/late")[i % 3] / f"{i:02d}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text(i), encoding="utf-8")
    (folder / "scan.pdf").write_bytes(b"%PDF-1.4\xff\xfe")
    return folder


def rejects(folder: Path) -> dict[str, str]:
    found = [json.loads(line) for line in (folder / "rejects.jsonl").read_bytes().splitlines()]
    return {reject["row"]["id"]: reject["reason"] for reject in found}


def test_a_folder_of_texts_becomes_one_with_the_same_names(
    compress: Callable[..., Finished], reports: Path, tmp_path: Path
) -> None:
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


def test_what_is_no_text_is_a_reject(compress: Callable[..., Finished], tmp_path: Path) -> None:
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
def test_a_table_becomes_tables(
    compress: Callable[..., Finished], tmp_path: Path, stored: Callable[[Path, Any], Path]
) -> None:
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
    compress: Callable[..., Finished], reports: Path, tmp_path: Path, engine: str
) -> None:
    compress(reports, tmp_path / "one", shard_rows=10)
    done = compress(reports, tmp_path / "two", shard_rows=10, workers=2, engine=engine)
    assert (done.rows, done.rejected, done.new) == (21, 1, 22)
    assert contents(tmp_path / "two") == contents(tmp_path / "one")


def test_killed_before_or_after_every_step_on_disk(
    compress: Callable[..., Finished], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    (data / "sub").mkdir(parents=True)
    for i in range(3):
        (data / ("sub", "")[i % 2] / f"{i}.txt").write_text(text(i))
    (data / "bad").write_bytes(b"\xff")
    run = partial(compress, data, shard_rows=2)
    run(tmp_path / "whole")
    assert kill_at_every_step(run, tmp_path / "whole", monkeypatch) > 25


COMPRESS = """
import sys, torch
torch.set_num_threads(1)
from keepset.jobs import compress_data
from tests.tiny_compressor import tiny_router
compress_data(sys.argv[1], sys.argv[2], 0.4, workers=2, shard_rows=10, router=tiny_router(), reader=sys.argv[3])
"""


def test_one_worker_goes_on_where_two_were_killed(
    compress: Callable[..., Finished], reports: Path, tmp_path: Path, reader: str
) -> None:
    compress(reports, tmp_path / "whole", shard_rows=10)
    out = tmp_path / "out"
    command = [sys.executable, "-c", COMPRESS, str(reports), str(out), reader]
    run = subprocess.Popen(command, cwd=Path(__file__).parents[2])
    while run.poll() is None and not list(out.glob(f"{OWN}/.shard*")):
        time.sleep(0.01)
    run.kill()
    run.wait()
    assert compress(reports, out, shard_rows=10).new < 22
    assert contents(out) == contents(tmp_path / "whole")


def test_a_text_that_is_gone_comes_back_and_a_changed_one_is_never_replaced(
    compress: Callable[..., Finished], reports: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    compress(reports, out)
    before = contents(out)
    (out / "2023" / "01.txt").unlink()
    assert compress(reports, out).new == 0
    assert contents(out) == before
    (out / "00.txt").write_text("My own notes.")
    with pytest.raises(ValueError, match=r"00\.txt: expected nothing, or what was kept of 00\.txt, got something else"):
        compress(reports, out)
    assert (out / "00.txt").read_text() == "My own notes."


def test_another_job_is_refused_with_what_differs(
    compress: Callable[..., Finished], reports: Path, tmp_path: Path
) -> None:
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
    compress: Callable[..., Finished], tiny: Loaded, write: Write, tmp_path: Path
) -> None:
    data = write(row(0) | {"text": TEXT})
    label(data, tiny, tmp_path / "labels")
    compress(data, tmp_path / "texts")
    with pytest.raises(ValueError, match=r"expected one by 'keepset compress', got 'keepset label'\. Choose another"):
        compress(data, tmp_path / "labels")
    with pytest.raises(ValueError, match="expected one by 'keepset label', got 'keepset compress'"):
        verify(tmp_path / "texts")


@pytest.mark.parametrize("name", ["2023", "00.txt", OWN, f"{OWN}/manifest.json", f"{OWN}/data"])
def test_links_in_the_folder_are_refused(
    compress: Callable[..., Finished], reports: Path, tmp_path: Path, name: str
) -> None:
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    (elsewhere / "late").mkdir(parents=True)
    (elsewhere / "01.txt").write_text("years of work")

    def planted(folder: JobFolder[Any, Any]) -> None:
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).symlink_to(elsewhere)

    if name.startswith(OWN):
        planted(None)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="got a symbolic link to"):
            compress(reports, out)
    else:
        begin = JobFolder._begin
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(JobFolder, "_begin", lambda folder: (begin(folder), planted(folder)))
            with pytest.raises(ValueError, match=f"{name}: expected a file or folder of its own, got a symbolic link"):
                compress(reports, out)
    assert sorted(path.name for path in elsewhere.rglob("*")) == ["01.txt", "late"]
    assert (elsewhere / "01.txt").read_text() == "years of work"


def test_a_journal_cannot_choose_where_files_go(
    compress: Callable[..., Finished], reports: Path, tmp_path: Path
) -> None:
    """Its checksum is no secret: whoever can write here can write a line that fits."""
    compress(reports, tmp_path / "whole")
    out = tmp_path / "out"
    append = Journal.append

    def forged(journal: Journal[Any], first_row: int, outcome: Any) -> None:
        line = {"id": "../../stolen.txt"} | ({"line": -1} if first_row == 8 else {})
        records = [outcome.records[0].model_copy(update=line), *outcome.records[1:]]
        append(journal, first_row, outcome._replace(records=records))
        if first_row == 8:
            raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Journal, "append", forged)
        with pytest.raises(Killed):
            compress(reports, out)
    assert compress(reports, out).new == 22 - 8, "the line that speaks of a row outside its shard does not count"
    assert not list(tmp_path.rglob("stolen.txt"))
    texts = {name: content for name, content in contents(out).items() if not name.startswith(OWN)}
    whole = {name: content for name, content in contents(tmp_path / "whole").items() if not name.startswith(OWN)}
    assert texts == whole


def test_a_journal_of_another_budget_is_not_used(
    compress: Callable[..., Finished], reports: Path, tmp_path: Path
) -> None:
    compress(reports, tmp_path / "whole")
    out, append = tmp_path / "out", Journal.append

    def stop(*arguments: Any) -> None:
        append(*arguments)
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Journal, "append", stop)
        with pytest.raises(Killed):
            compress(reports, out, budget=0.9)
    for path in (out / OWN).glob("[!.]*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert list((out / OWN).glob(".shard*"))
    compress(reports, out)
    assert contents(out) == contents(tmp_path / "whole")


def test_no_flipped_bit_is_gone_on_with(compress: Callable[..., Finished], reports: Path, tmp_path: Path) -> None:
    out, rng = tmp_path / "out", random.Random(0)
    compress(reports, out)
    own = (out / OWN / "data" / "shard-00000.parquet", out / OWN / "rejects" / "shard-00000.jsonl")
    for path in (*own, out / OWN / "manifest.json", out / "00.txt", out / "2023" / "late" / "20.txt"):
        whole = path.read_bytes()
        for _ in range(4):
            place = rng.randrange(8 * len(whole))
            flipped = bytearray(whole)
            flipped[place // 8] ^= 1 << place % 8
            path.write_bytes(flipped)
            with pytest.raises(ValueError, match=path.name):
                compress(reports, out)
        path.write_bytes(whole)
    assert compress(reports, out).new == 0


def test_a_text_that_fails_harms_no_other(
    compress: Callable[..., Finished], reports: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = CompressWorker.__call__

    def fails(worker: CompressWorker, group: Any) -> Any:
        original = worker.compressor.compress

        def sometimes(given: str, *arguments: Any) -> Any:
            if "1907" in given:
                raise RuntimeError("out of memory")
            return original(given, *arguments)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(worker.compressor, "compress", sometimes)
            return done(worker, group)

    monkeypatch.setattr(CompressWorker, "__call__", fails)
    assert compress(reports, tmp_path / "out").rows == 20
    assert rejects(tmp_path / "out" / OWN)["2023/07.txt"] == "model: RuntimeError: out of memory"
    assert not (tmp_path / "out" / "2023" / "07.txt").exists()


def test_mistakes_are_one_clear_line(compress: Callable[..., Finished], reports: Path, tmp_path: Path) -> None:
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


def test_nothing_to_compress_is_an_error(compress: Callable[..., Finished], tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.bin").write_bytes(b"\xff")
    for _ in range(2):
        with pytest.raises(ValueError, match=r"expected rows that can be compressed, got 1 rejects, see .*: file: exp"):
            compress(tmp_path / "data", tmp_path / "out")


def test_a_file_that_changes_meanwhile_stops_the_job(
    compress: Callable[..., Finished], reports: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = JobFolder._begin
    changed = reports / "2023" / "late" / "20.txt"
    monkeypatch.setattr(JobFolder, "_begin", lambda folder: (begin(folder), changed.write_text("Other.")))
    with pytest.raises(ValueError, match=r"20\.txt: expected the file to stay as it is"):
        compress(reports, tmp_path / "out")
