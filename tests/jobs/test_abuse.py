"""Folders that somebody else has been at: nothing is mixed, written elsewhere, or read back different."""

import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from keepset.jobs import label, label_statistics, verify
from keepset.jobs.folder import JobFolder
from keepset.jobs.journal import Journal
from keepset.jobs.labelling import Loaded
from keepset.jobs.looking import show_verified
from keepset.jobs.stored import check_labels, stored_rows
from keepset.jobs.training import train
from keepset.paper.bench.models import tiny_model
from tests.jobs.conftest import Write, row
from tests.jobs.test_resume import Killed, contents

pytestmark = pytest.mark.long

N_ROWS = 20


@pytest.fixture
def data(write: Write) -> Path:
    return write(*(row(i) for i in range(N_ROWS)), b"{broken")


def stopped(data: Path, model: Loaded, out: Path, groups: int) -> None:
    """Labels some groups, then is gone without a word."""
    append = JobFolder.append

    def stop(folder: JobFolder, *arguments: Any) -> None:
        append(folder, *arguments)
        if len(folder._begun.get(0, ())) == groups:
            raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JobFolder, "append", stop)
        with pytest.raises(Killed):
            label(data, model, out)


def test_a_journal_of_another_model_is_not_used(tiny: Loaded, data: Path, tmp_path: Path) -> None:
    other, tokenizer = tiny_model()
    other.lm_head.weight.data *= 3
    out = tmp_path / "out"
    stopped(data, tiny, out, groups=2)
    for path in out.glob("[!.]*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert [path.name for path in out.glob(".shard*")] == [".shard-00000.journal"]
    label(data, (other, tokenizer), out)
    label(data, (other, tokenizer), tmp_path / "whole")
    assert contents(out) == contents(tmp_path / "whole")


def test_a_journal_of_the_same_job_is_gone_on_with(
    tiny: Loaded, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    stopped(data, tiny, out, groups=2)
    capsys.readouterr()
    assert label(data, tiny, out).new == N_ROWS + 1 - 16
    assert "rows 21, shards 1, done before 16" in capsys.readouterr().err


@pytest.mark.parametrize("meddle", ["twice", "swapped", "flipped", "other shard", "moved", "noise"])
def test_lines_of_a_journal_count_once_and_only_whole(tiny: Loaded, data: Path, tmp_path: Path, meddle: str) -> None:
    label(data, tiny, tmp_path / "whole")
    out = tmp_path / "out"
    stopped(data, tiny, out, groups=2)
    journal = out / ".shard-00000.journal"
    first, second = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(
        {
            "twice": first + second + first,
            "swapped": second + first,
            "flipped": first.replace(b'"answer":"42"', b'"answer":"43"') + second,
            "other shard": first.replace(b" 0 0 8 ", b" 1 0 8 ") + second,
            "moved": first + first.replace(b" 0 0 8 ", b" 0 8 8 "),
            "noise": b"\x00\xff" * 50 + b"\n" + first + b"\n\n" + second[:-20],
        }[meddle]
    )
    label(data, tiny, out)
    assert contents(out) == contents(tmp_path / "whole")


@pytest.mark.parametrize(
    "name", [".shard-00000.journal", "manifest.json", "data", "rejects", "rejects.jsonl", ".lock", "README.md"]
)
@pytest.mark.parametrize("begun", [True, False])
def test_links_in_the_folder_are_refused(tiny: Loaded, data: Path, tmp_path: Path, name: str, begun: bool) -> None:
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    out.mkdir()
    if begun:
        stopped(data, tiny, out, groups=1)
        found = out / name
        shutil.rmtree(found) if found.is_dir() else found.unlink()
    elsewhere.mkdir()
    (elsewhere / "thesis.txt").write_text("years of work")
    (out / name).symlink_to(elsewhere if name in ("data", "rejects") else elsewhere / "thesis.txt")
    with pytest.raises(ValueError, match=f"{name}: expected a file or folder of its own, got a symbolic link to"):
        label(data, tiny, out)
    assert [path.name for path in elsewhere.iterdir()] == ["thesis.txt"]
    assert (elsewhere / "thesis.txt").read_text() == "years of work"


@pytest.mark.parametrize("name", ["manifest.json", ".shard-00000.journal", "rejects.jsonl", ".lock"])
def test_a_pipe_in_the_folder_is_refused_and_not_waited_for(
    tiny: Loaded, data: Path, tmp_path: Path, name: str
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    os.mkfifo(out / name)
    with pytest.raises(ValueError, match=f"{name}: expected a file or folder of its own, got a device or a pipe"):
        label(data, tiny, out)
    if name == "manifest.json":
        with pytest.raises(ValueError, match=r"not a manifest to go on from: expected a file\."):
            verify(out)


def test_a_link_that_appears_later_is_not_followed(tiny: Loaded, data: Path, tmp_path: Path) -> None:
    out, thesis = tmp_path / "out", tmp_path / "thesis.txt"
    thesis.write_text("years of work")
    append = Journal.append

    def planted(journal: Journal, *arguments: Any) -> None:
        journal.path.unlink(missing_ok=True)
        journal.path.symlink_to(thesis)
        append(journal, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Journal, "append", planted)
        with pytest.raises(ValueError, match="got a symbolic link to"):
            label(data, tiny, out)
    assert thesis.read_text() == "years of work"


def test_the_folder_itself_may_be_a_link(tiny: Loaded, data: Path, tmp_path: Path) -> None:
    (tmp_path / "large-disk").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "large-disk")
    assert label(data, tiny, tmp_path / "out").rows == N_ROWS
    assert (tmp_path / "large-disk" / "manifest.json").exists()


def test_what_a_kill_leaves_hidden_is_cleared_away(tiny: Loaded, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    stopped(data, tiny, out, groups=1)
    gone = "0" * 8 + "-1-" + "0" * 8  # another host's, long ago
    left = [out / f".manifest.json.{gone}.tmp", out / "data" / f".shard-00000.parquet.{gone}.tmp"]
    left.append(out / ".shard-00007.journal")  # of a shard that this job does not have
    for path in left:
        path.touch()
        os.utime(path, (0, 0))
    label(data, tiny, out)
    assert not any(path.exists() for path in left)
    assert not list(out.glob(".shard*"))


def test_no_flipped_bit_reads_back_different(sharp: Loaded, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    label(data, sharp, out)
    manifest = check_labels(out)
    rows = list(stored_rows(out, manifest))
    rng = random.Random(0)
    files = [out / manifest.shards[0].file, out / "rejects" / "shard-00000.jsonl", out / "manifest.json"]
    for path in files:
        whole = path.read_bytes()
        for _ in range(20):
            place = rng.randrange(8 * len(whole))
            flipped = bytearray(whole)
            flipped[place // 8] ^= 1 << place % 8
            path.write_bytes(flipped)
            with pytest.raises(ValueError, match=path.name):
                verify(out)
        path.write_bytes(whole)
    assert verify(out).labelled == len(rows) == N_ROWS


def test_training_names_the_damaged_shard(sharp: Loaded, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    label(data, sharp, out, shard_rows=8)
    table = out / "data" / "shard-00001.parquet"
    content = bytearray(table.read_bytes())
    content[len(content) // 2] ^= 1
    table.write_bytes(content)
    with pytest.raises(ValueError, match=r"shard-00001.parquet: expected the bytes that were written .* is damaged"):
        train(out, sharp)
    table.unlink()
    with pytest.raises(ValueError, match=r"shard-00001.parquet: expected a file of the finished shard"):
        train(out, sharp)
    label(data, sharp, out, shard_rows=8)
    assert verify(out).labelled == N_ROWS


def test_a_manifest_cannot_point_outside_its_folder(sharp: Loaded, data: Path, tmp_path: Path) -> None:
    from keepset.jobs.manifest import CHECK, _checksum

    out = tmp_path / "out"
    label(data, sharp, out)
    found = json.loads((out / "manifest.json").read_text())
    del found[CHECK]
    found["shards"][0]["file"] = "../secret.parquet"
    (out / "manifest.json").write_text(json.dumps(found | {CHECK: _checksum(found)}))
    with pytest.raises(ValueError, match="not a manifest to go on from"):
        check_labels(out)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"data": None}, "data: expected a path, got NoneType"),
        ({"data": b"data.jsonl"}, "data: expected a path, got bytes"),
        ({"data": ""}, "data: expected a path, got ''"),
        ({"out": 5}, "out: expected a path, got int"),
        ({"model": None}, "model: expected a name, a folder, or a model and its tokenizer, got NoneType"),
        ({"model": (1, 2, 3)}, "model: expected a name, a folder, or a model and its tokenizer, got tuple"),
        ({"model": (1, 2)}, "tokenizer: expected the one load_model gives with the model, got int"),
        ({"shard_rows": "3"}, "shard_rows: expected at least 1, got '3'"),
        ({"workers": 1.5}, "workers: expected at least 1, got 1.5"),
        ({"columns": {"context": 5}}, "columns: expected field -> name of the column, got"),
        ({"quantize": "int3"}, "quantize: expected"),
    ],
)
def test_wrong_types_are_named(tiny: Loaded, data: Path, tmp_path: Path, change: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        label(**({"data": data, "model": tiny, "out": tmp_path / "out"} | change))
    assert not (tmp_path / "out").exists()


def test_folders_of_labels_that_are_no_path() -> None:
    for call in (verify, label_statistics, train):
        with pytest.raises(ValueError, match="labels: expected a path, got NoneType"):
            call(None)  # type: ignore[arg-type]


def test_names_do_not_steer_the_terminal(
    sharp: Loaded, write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, out = write(row(0), name="\x1b[2Jdata.jsonl"), tmp_path / "\x1b]0;owned\x07"
    label(data, sharp, out)
    show_verified(out, Console())
    printed = "".join(capsys.readouterr())
    assert "\x1b" not in printed
    assert r"\x1b[2Jdata.jsonl: rows 1" in printed
    assert r"\x1b]0;owned\x07: 1 shards are as they were written" in printed


def test_nested_rows_are_read_back_at_any_depth(tiny: Loaded, write: Write, tmp_path: Path) -> None:
    """A row that parses where it is labelled must parse where its reject is read."""
    depths = [*range(900, 1000, 7), 100_000]
    rows = [json.dumps(row(0, answer=5))[:-1].encode() + b', "x": ' + b"[" * n + b"]" * n + b"}" for n in depths]
    label(write(*rows, row(1)), tiny, tmp_path / "out")
    assert verify(tmp_path / "out").rejected == len(depths)


def test_rows_without_candidates_that_cannot_be_labelled_are_an_error(
    tiny: Loaded, write: Write, tmp_path: Path
) -> None:
    """Under the rule of worth too, which no row reaches here: each is longer than the model's positions."""
    data = write(*(row(i, context="It rains. " * 3_000) for i in range(3)))
    with pytest.raises(ValueError, match=r"expected rows that can be labelled, got 3 rejects, .* the first one: "):
        label(data, tiny, tmp_path / "out")


def test_labels_without_any_evidence_do_not_pass_in_silence(
    sharp: Loaded, write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a model that nothing moves."""
    flat, tokenizer = tiny_model()
    flat.lm_head.weight.data.zero_()
    data = write(*(row(i) for i in range(3)))
    assert label(data, (flat, tokenizer), tmp_path / "flat").rows == 3
    assert "none of the 3 answers rests on its context" in capsys.readouterr().err
    label(
        write(*(row(i, candidates=["42", f"{4000 + i}"]) for i in range(8)), name="other.jsonl"), sharp, tmp_path / "o"
    )
    assert "rests on its context" not in capsys.readouterr().err
