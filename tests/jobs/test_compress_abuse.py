"""Many texts made short while the job is killed, its files changed and links planted: nothing is lost or replaced."""

import random
import shutil
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from keepset.jobs import engines
from keepset.jobs.compressing import CompressWorker
from keepset.jobs.folder import JobFolder
from keepset.jobs.journal import Journal
from keepset.jobs.texts import OWN
from tests.background import ForkedProcesses, in_background
from tests.jobs.compress_work import Compress, rejects, text
from tests.jobs.test_resume import Killed, contents, kill_at_every_step

pytestmark = pytest.mark.long


def test_killed_before_or_after_every_step_on_disk(
    compress: Compress, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    (data / "sub").mkdir(parents=True)
    for i in range(3):
        (data / ("sub", "")[i % 2] / f"{i}.txt").write_text(text(i))
    (data / "bad").write_bytes(b"\xff")
    run = partial(compress, data, shard_rows=2)
    run(tmp_path / "whole")
    assert kill_at_every_step(run, tmp_path / "whole", monkeypatch) > 25


def test_one_worker_goes_on_where_two_were_killed(
    compress: Compress, reports: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "Processes", ForkedProcesses)
    compress(reports, tmp_path / "whole", shard_rows=10)
    out = tmp_path / "out"
    run = in_background(compress, reports, out, shard_rows=10, workers=2)
    while run.exitcode is None and not list(out.glob(f"{OWN}/.shard*")):
        time.sleep(0.01)
    run.kill()
    run.join()
    assert compress(reports, out, shard_rows=10).new < 22
    assert contents(out) == contents(tmp_path / "whole")


def test_a_text_that_is_gone_comes_back_and_a_changed_one_is_never_replaced(
    compress: Compress, reports: Path, tmp_path: Path
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


@pytest.mark.parametrize("name", ["2023", "00.txt", OWN, f"{OWN}/manifest.json", f"{OWN}/data"])
def test_links_in_the_folder_are_refused(compress: Compress, reports: Path, tmp_path: Path, name: str) -> None:
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


def test_a_journal_cannot_choose_where_files_go(compress: Compress, reports: Path, tmp_path: Path) -> None:
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


def test_a_journal_of_another_budget_is_not_used(compress: Compress, reports: Path, tmp_path: Path) -> None:
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


def test_no_flipped_bit_is_gone_on_with(compress: Compress, reports: Path, tmp_path: Path) -> None:
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
    compress: Compress, reports: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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


def test_a_file_that_changes_meanwhile_stops_the_job(
    compress: Compress, reports: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = JobFolder._begin
    changed = reports / "2023" / "late" / "20.txt"
    monkeypatch.setattr(JobFolder, "_begin", lambda folder: (begin(folder), changed.write_text("Other.")))
    with pytest.raises(ValueError, match=r"20\.txt: expected the file to stay as it is"):
        compress(reports, tmp_path / "out")
