"""Whatever rows are stored in, they come as the same lines, from the beginning or from the middle."""

import gzip
import io
import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from keepset.jobs import open_source, plan_shards
from keepset.jobs.labelling import Labeller, Loaded, label_rows
from tests.jobs.conftest import row

ROWS: list[dict[str, Any]] = [row(i) | {"id": i, "candidates": ["42", f"{4000 + i}"]} for i in range(23)]


def as_jsonl(folder: Path, rows: list[dict[str, Any]]) -> Path:
    path = folder / "data.jsonl"
    path.write_text("".join(json.dumps(found, ensure_ascii=False) + "\n" for found in rows))
    return path


def as_gzip(folder: Path, rows: list[dict[str, Any]]) -> Path:
    path = folder / "named-like-nothing"
    path.write_bytes(gzip.compress(as_jsonl(folder, rows).read_bytes()))
    return path


def as_parquet(folder: Path, rows: list[dict[str, Any]]) -> Path:
    pq.write_table(pa.Table.from_pylist(rows), folder / "data.parquet", row_group_size=5)
    return folder / "data.parquet"


def as_saved_data_set(folder: Path, rows: list[dict[str, Any]]) -> Path:
    datasets.Dataset.from_list(rows).save_to_disk(str(folder / "saved"))
    return folder / "saved"


def as_folder(folder: Path, rows: list[dict[str, Any]]) -> Path:
    (folder / "raw").mkdir()
    return as_jsonl(folder / "raw", rows).parent


def as_pipe(folder: Path, rows: list[dict[str, Any]]) -> Path:
    content = as_jsonl(folder, rows).read_bytes()
    os.mkfifo(folder / "pipe")
    threading.Thread(target=lambda: (folder / "pipe").write_bytes(content), daemon=True).start()
    return folder / "pipe"


EVERY = (as_jsonl, as_gzip, as_parquet, as_saved_data_set, as_folder, as_pipe)


@pytest.mark.parametrize("stored", EVERY)
def test_rows_are_the_same_from_everywhere(
    tiny: Loaded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored: Callable[[Path, Any], Path]
) -> None:
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    source = open_source(stored(tmp_path, ROWS))
    plan = plan_shards(source, 9)
    assert [(shard.first_line, shard.last_line, shard.rows) for shard in plan.shards] == [
        (1, 9, 9),
        (10, 18, 9),
        (19, 23, 5),
    ]
    groups = list(plan.groups(plan.shards, {}))
    assert [json.loads(line.content) for group in groups for line in group.lines] == ROWS
    assert [line.number for group in groups for line in group.lines] == list(range(1, 24))
    assert list(plan.groups((plan.shards[0], plan.shards[2]), {0: {0}})) == [groups[1], groups[4]]
    records, rejects = label_rows(groups[0].lines[:1], Labeller(*tiny, "paragraph"))
    assert (len(records), rejects) == (1, [])


def test_standard_input_is_read_once_and_used_twice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    content = as_gzip(tmp_path, ROWS).read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    source = open_source("-")
    for _ in range(2):
        assert len(list(source.lines())) == len(ROWS)


def test_lines_are_read_from_any_byte(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}\r\n\n{"b": "\xe2\x80\xa8"}\n{"c": 3}')
    source = open_source(path)
    lines = list(source.lines())
    assert [found.number for found in lines] == [1, 2, 3, 4]
    assert [found.content for found in lines] == [b'{"a": 1}', b"", b'{"b": "\xe2\x80\xa8"}', b'{"c": 3}']
    start = len(lines[0].raw) + len(lines[1].raw)
    assert list(source.lines(3, start)) == lines[2:]


def test_columns_have_their_own_names(tiny: Loaded, tmp_path: Path) -> None:
    rows = [
        {"passage": found["context"], "query": found["question"], "answer": "42", "embedding": b"\x00"}
        for found in ROWS
    ]
    path = as_parquet(tmp_path, rows)
    with pytest.raises(ValueError, match=r"expected a column 'question', got passage, .* --column question=NAME"):
        open_source(path)
    columns = {"context": "passage", "question": "query"}
    lines = list(open_source(path, columns).lines())
    assert set(json.loads(lines[0].content)) == {"passage", "query", "answer"}, "no more than what is needed is read"
    assert label_rows(lines[:1], Labeller(*tiny, "paragraph", columns=columns)).rejects == []
    with pytest.raises(ValueError, match=r"column: expected one of the fields context, .* got 'kontext'"):
        open_source(path, {"kontext": "passage"})


def test_values_that_are_no_text_reject_their_row(tiny: Loaded, tmp_path: Path) -> None:
    rows = [ROWS[0] | {"context": None}, ROWS[1]]
    bad = as_parquet(tmp_path, rows)
    records, rejects = label_rows(open_source(bad).lines(), Labeller(*tiny, "paragraph"))
    assert [record.line for record in records] == [2]
    assert rejects[0].reason == "row: expected either context or blocks, got neither"
    pq.write_table(pa.Table.from_pylist([found | {"context": b"\xff"} for found in rows]), bad)
    _, rejects = label_rows(open_source(bad).lines(), Labeller(*tiny, "paragraph"))
    assert [reject.reason for reject in rejects] == ["context: expected some text, got {'type': 'bytes'}"] * 2


@pytest.mark.parametrize("stored", [as_gzip, as_parquet])
def test_half_a_file_is_one_clear_line(tmp_path: Path, stored: Callable[[Path, Any], Path]) -> None:
    path = stored(tmp_path, ROWS)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ValueError, match=f"{path.name}: expected") as error:
        list(open_source(path).lines())
    assert "\n" not in str(error.value)


def test_splits_are_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = {name: datasets.Dataset.from_list(ROWS[:n]) for name, n in (("test", 2), ("validation", 3))}
    datasets.DatasetDict(parts).save_to_disk(str(tmp_path / "saved"))
    assert len(list(open_source(tmp_path / "saved", split="test").lines())) == 2
    with pytest.raises(ValueError, match=r"expected one of the splits test, validation, got 'train'; .* --split"):
        open_source(tmp_path / "saved")
    with pytest.raises(ValueError, match="split: expected none"):
        open_source(as_jsonl(tmp_path, ROWS), split="test")
