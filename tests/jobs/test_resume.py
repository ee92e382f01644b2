"""Stopped at any moment and started again, a job ends with the same files, byte for byte."""

import errno
import json
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from filelock import FileLock

from keepset.jobs import Labeller, Terminated, label, label_rows
from keepset.jobs import labelling as labelling_module
from keepset.jobs.folder import JobFolder
from keepset.jobs.journal import Journal
from keepset.jobs.labelling import Loaded
from keepset.jobs.plan import Shard
from keepset.jobs.stored import LabelManifest
from tests.background import in_background
from tests.jobs.conftest import Write, row

N_ROWS = 44
SHARD_ROWS = 20


def contents(out: Path) -> dict[str, bytes]:
    """Every file a user sees, and every one left over."""
    return {
        path.relative_to(out).as_posix(): path.read_bytes()
        for path in sorted(out.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


@pytest.fixture
def data(write: Write) -> Path:
    """Good rows with a bad one here and there."""
    return write(*(b"{broken" if i % 9 == 4 else row(i) for i in range(N_ROWS)))


@pytest.fixture(scope="module")
def known() -> dict[Hashable, Any]:
    """Model, setting and rows -> their labels, which are the same in every test."""
    return {}


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, known: dict[Hashable, Any]) -> list[int]:
    """Labels each group once; lists the first lines of the groups that were asked for."""
    asked: list[int] = []

    def remembered(rows: Any, labeller: Labeller) -> Any:
        rows = tuple(rows)
        asked.append(rows[0].number)
        key = (labeller.model, labeller.blocks, labeller.effort, rows)
        if key not in known:
            known[key] = label_rows(rows, labeller)
        return known[key]

    monkeypatch.setattr(labelling_module, "label_rows", remembered)
    return asked


def test_killed_at_random_moments(tiny: Loaded, data: Path, tmp_path: Path) -> None:
    began = time.monotonic()
    label(data, tiny, tmp_path / "whole", shard_rows=SHARD_ROWS)
    whole = time.monotonic() - began
    out = tmp_path / "out"
    seed = random.randrange(1000)
    rng = random.Random(seed)
    killed = 0
    for _ in range(2):
        run = in_background(label, data, tiny, out, shard_rows=SHARD_ROWS)
        before = contents(out) if out.exists() else {}
        while run.exitcode is None and (not out.exists() or contents(out) == before):
            time.sleep(0.01)
        time.sleep(rng.uniform(0, whole / 3))
        run.kill()
        run.join()
        killed += run.exitcode == -signal.SIGKILL
    assert killed, "the job ended before it could be killed"
    done = label(data, tiny, out, shard_rows=SHARD_ROWS)
    assert contents(out) == contents(tmp_path / "whole"), f"seed {seed}"
    assert done.rows + done.rejected == N_ROWS


class Killed(BaseException):
    """Ends the job at a chosen step."""


def kill_at_every_step(run: Callable[[Path], object], whole: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many steps on disk a job has. Killed before or after any, it is gone on with to the files of ``whole``.

    The steps are the renames, the journal's lines and its end.
    """
    expected = contents(whole)
    step = stop = 0

    def counted(action: Callable[..., Any]) -> Callable[..., Any]:
        def do(*arguments: Any) -> Any:
            nonlocal step
            step += 1
            if step == stop:
                raise Killed
            result = action(*arguments)
            step += 1
            if step == stop:
                raise Killed
            return result

        return do

    monkeypatch.setattr(os, "replace", counted(os.replace))
    monkeypatch.setattr(Journal, "append", counted(Journal.append))
    monkeypatch.setattr(Journal, "remove", counted(Journal.remove))
    ended = False
    while not ended:
        out = whole.with_name(f"out-{stop}")
        step, stop = 0, stop + 1
        try:
            run(out)
            ended = True
        except Killed:
            step = -1_000_000
            run(out)
        assert contents(out) == expected, f"stopped at step {stop}"
    return stop


def test_killed_before_or_after_every_step_on_disk(
    tiny: Loaded, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick: list[int]
) -> None:
    def run(out: Path) -> None:
        label(data, tiny, out, shard_rows=SHARD_ROWS)

    run(tmp_path / "whole")
    assert kill_at_every_step(run, tmp_path / "whole", monkeypatch) > 30


def stop_at_the_last_group(folder: JobFolder, shard: Shard) -> None:
    if len(folder._begun[shard.number]) == 3:
        raise Killed


def test_a_torn_line_of_the_journal_is_done_again(
    tiny: Loaded, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick: list[int]
) -> None:
    label(data, tiny, tmp_path / "whole", shard_rows=SHARD_ROWS)
    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(JobFolder, "_finish_if_done", stop_at_the_last_group)
        with pytest.raises(Killed):
            label(data, tiny, out, shard_rows=SHARD_ROWS)
    journal = out / ".shard-00000.journal"
    os.truncate(journal, journal.stat().st_size - 10)
    quick.clear()
    label(data, tiny, out, shard_rows=SHARD_ROWS)
    assert contents(out) == contents(tmp_path / "whole")
    assert quick[0] == 17, "the groups of lines 1 and 9 were whole"


def test_a_finished_job_is_left_as_it_is(tiny: Loaded, data: Path, tmp_path: Path, quick: list[int]) -> None:
    out = tmp_path / "out"
    first = label(data, tiny, out, shard_rows=SHARD_ROWS)
    before = contents(out)
    quick.clear()
    again = label(data, tiny, out, shard_rows=SHARD_ROWS)
    assert (again.rows, again.rejected, again.new) == (first.rows, first.rejected, 0)
    assert quick == []
    assert contents(out) == before
    manifest = json.loads(before["manifest.json"])
    assert manifest["rows"] == N_ROWS
    assert [(s["first_line"], s["last_line"]) for s in manifest["shards"]] == [(1, 20), (21, 40), (41, 44)]


def test_a_shard_that_was_deleted_is_made_again(tiny: Loaded, data: Path, tmp_path: Path, quick: list[int]) -> None:
    out = tmp_path / "out"
    label(data, tiny, out, shard_rows=SHARD_ROWS)
    before = contents(out)
    (out / "data" / "shard-00001.parquet").unlink()
    label(data, tiny, out, shard_rows=SHARD_ROWS)
    assert contents(out) == before


def test_another_job_is_refused_with_what_differs(
    tiny: Loaded, data: Path, write: Write, tmp_path: Path, quick: list[int]
) -> None:
    from keepset.paper.bench.models import tiny_model

    out = tmp_path / "out"
    label(data, tiny, out)
    before = contents(out)
    other_data = write(row(99), name="other.jsonl")
    trained, tokenizer = tiny_model()
    trained.lm_head.weight.data += 1
    for text, arguments in {
        "blocks was 'sentence', is 'paragraph'": (data, tiny, {"blocks": "paragraph"}),
        "effort was 'evidence', is 'grouped'": (data, tiny, {"effort": "grouped"}),
        "shard_rows was 256, is 3": (data, tiny, {"shard_rows": 3}),
        r"data_sha256 was '\w+' data.jsonl, is '\w+' other.jsonl": (other_data, tiny, {}),
        r"model_fingerprint was '\w+' LlamaForCausalLM, is": (data, (trained, tokenizer), {}),
    }.items():
        with pytest.raises(ValueError, match=text):
            label(*arguments[:2], out, **arguments[2])
    assert contents(out) == before
    moved = data.rename(tmp_path / "moved.jsonl")
    assert label(moved, tiny_model(), out).new == 0, "the same contents under another name"


def test_labels_by_an_older_rule_are_not_gone_on_with(
    tiny: Loaded, data: Path, tmp_path: Path, quick: list[int]
) -> None:
    out = tmp_path / "out"
    label(data, tiny, out)
    found = json.loads((out / "manifest.json").read_text())
    assert found["job"]["rule"] == "worth; paper where rows have candidates"
    del found["sha256"]
    older = LabelManifest.model_validate(found | {"job": found["job"] | {"rule": "paper"}})
    (out / "manifest.json").write_text(older.text())
    with pytest.raises(ValueError, match=r"rule was 'paper', is 'worth; paper where rows have candidates'"):
        label(data, tiny, out)
    del found["job"]["rule"]
    (out / "manifest.json").write_text(json.dumps(found | {"schema_version": 5}))
    with pytest.raises(
        ValueError, match=r"expected schema 6, got 5: another keepset wrote it\. Choose another"
    ) as refused:
        label(data, tiny, out)
    assert "\n" not in str(refused.value)


def test_a_folder_with_other_things_in_it_is_refused(tiny: Loaded, data: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("years of work")
    with pytest.raises(ValueError, match=r"expected an empty folder or one with the manifest.json .* got thesis.txt"):
        label(data, tiny, tmp_path / "out")
    (tmp_path / "out" / "manifest.json").write_text('{"schema_version": 99}')
    with pytest.raises(ValueError, match="expected schema 6, got 99"):
        label(data, tiny, tmp_path / "out")
    (tmp_path / "out" / "manifest.json").write_text("{")
    with pytest.raises(ValueError, match="not a manifest to go on from"):
        label(data, tiny, tmp_path / "out")


def test_a_broken_table_is_named(tiny: Loaded, data: Path, tmp_path: Path, quick: list[int]) -> None:
    out = tmp_path / "out"
    label(data, tiny, out)
    (out / "data" / "shard-00000.parquet").write_bytes(b"PAR1")
    with pytest.raises(ValueError, match=r"shard-00000.parquet: expected the bytes that were written .* delete "):
        label(data, tiny, out)


@pytest.mark.parametrize("damage", [lambda path: path.write_bytes(b"{}"), Path.unlink])
def test_what_is_said_of_broken_rejects_makes_them_whole(
    tiny: Loaded, write: Write, tmp_path: Path, quick: list[int], damage: Callable[[Path], object]
) -> None:
    data, out = write(row(1), {"question": "no context"}, row(3)), tmp_path / "out"
    label(data, tiny, out)
    before = contents(out)
    damage(out / "rejects" / "shard-00000.jsonl")
    table = out / "data" / "shard-00000.parquet"
    with pytest.raises(ValueError, match=rf"shard-00000\.jsonl: expected .*delete {table} and run the same"):
        label(data, tiny, out)
    table.unlink()
    label(data, tiny, out)
    assert contents(out) == before


def test_two_processes_do_not_share_a_folder(tiny: Loaded, data: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with FileLock(tmp_path / "out" / ".lock"), pytest.raises(ValueError, match="another process is labelling here"):
        label(data, tiny, tmp_path / "out")


@pytest.mark.parametrize("where", ["table", "journal"])
def test_a_full_disk_loses_nothing(
    tiny: Loaded, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick: list[int], where: str
) -> None:
    label(data, tiny, tmp_path / "whole", shard_rows=SHARD_ROWS)
    out = tmp_path / "out"
    calls = 0

    def full(original: Callable[..., Any]) -> Callable[..., Any]:
        def write(*arguments: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == 2:
                raise OSError(errno.ENOSPC, "No space left on device")
            return original(*arguments, **options)

        return write

    with monkeypatch.context() as patch:
        if where == "table":
            patch.setattr(pq.ParquetWriter, "write_table", full(pq.ParquetWriter.write_table))
        else:
            patch.setattr(os, "fsync", full(os.fsync))
        with pytest.raises(OSError, match="No space left on device; what was finished stays: solve that and run"):
            label(data, tiny, out, shard_rows=SHARD_ROWS)
    assert not list(out.rglob("*.tmp"))
    if where == "table":
        assert [path.name for path in (out / "data").iterdir()] == ["shard-00000.parquet"]
    label(data, tiny, out, shard_rows=SHARD_ROWS)
    assert contents(out) == contents(tmp_path / "whole")


def test_a_folder_nobody_may_write_to(tiny: Loaded, data: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="what was finished stays: solve that and run the same command again"):
        label(data, tiny, tmp_path / "file" / "out")


def test_sigterm_stops_as_ctrl_c_does(
    tiny: Loaded, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick: list[int]
) -> None:
    before = signal.getsignal(signal.SIGTERM)
    label(data, tiny, tmp_path / "whole", shard_rows=SHARD_ROWS)
    out = tmp_path / "out"
    append = Journal.append
    with monkeypatch.context() as patch:

        def stop(journal: Journal, first_row: int, outcome: Any) -> None:
            append(journal, first_row, outcome)
            os.kill(os.getpid(), signal.SIGTERM)

        patch.setattr(Journal, "append", stop)
        with pytest.raises(Terminated):
            label(data, tiny, out, shard_rows=SHARD_ROWS)
    assert signal.getsignal(signal.SIGTERM) == before
    assert label(data, tiny, out, shard_rows=SHARD_ROWS).new == N_ROWS - 8
    assert contents(out) == contents(tmp_path / "whole")


def test_labelling_works_outside_the_main_thread(tiny: Loaded, data: Path, tmp_path: Path, quick: list[int]) -> None:
    thread = threading.Thread(target=label, args=(data, tiny, tmp_path / "out"))
    thread.start()
    thread.join()
    assert (tmp_path / "out" / "data" / "shard-00000.parquet").exists()
