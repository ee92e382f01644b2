"""Labelling a file: the labels are those of the engine, and a bad row harms nobody else."""

import json
import math
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import keepset
from keepset.interventions import Effects, Fast, ForcedChoice, TeacherForced
from keepset.jobs import Finished, Labeller, LabelRow, label, label_rows, open_source, plan_shards
from keepset.jobs import labelling as labelling_module
from keepset.jobs.labelling import Loaded
from keepset.jobs.tables import columns_table, read_rows, schema_of
from keepset.labels import find_evidence
from keepset.labels.support import LEAST_WORTH, find_support
from keepset.labels.worth import Answer
from keepset.readouts import answer_attention, pool_attention
from keepset.text.jsonl import Line, parse_row, row_example
from tests.jobs.conftest import Write, row


def table(out: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pa.concat_tables(
        [pq.read_table(path) for path in sorted((out / "data").glob("*.parquet"))]
    ).to_pylist()
    return found


def read_lines(data: Path) -> list[Line]:
    return list(open_source(data).lines())


def rejects(out: Path) -> list[dict[str, Any]]:
    return [json.loads(text) for text in (out / "rejects.jsonl").read_bytes().splitlines()]


CANDIDATES = {"candidates": ["42", "17", "9"]}
OWN_BLOCKS = {
    "blocks": ["The code for BELU is 42.", "It rains."],
    "question": "Which code?",
    "answer": "42",
    "id": "own",
}


@pytest.mark.parametrize("effort", ["evidence", "exact", "grouped", "certified"])
def test_labels_are_those_of_the_engine(sharp: Loaded, write: Write, tmp_path: Path, effort: Any) -> None:
    data = write(row(0), row(1, **CANDIDATES), OWN_BLOCKS, row(3, context="One block.", id=5))
    done = label(data, sharp, tmp_path / "out", effort=effort)
    assert done == Finished(tmp_path / "out", rows=4, rejected=0, new=4, seconds=done.seconds)
    model, tokenizer = sharp
    found = table(tmp_path / "out")
    assert [record["id"] for record in found] == ["1", "2", "own", "5"]
    for line, record in zip(read_lines(data), found, strict=True):
        given = parse_row(line)
        example = row_example(given, tokenizer, "paragraph")
        assert record["line"] == given.line
        assert record["n_blocks"] == len(example.blocks) == len(record["blocks"])
        assert list(zip(record["char_start"], record["char_stop"], strict=True)) == list(example.places)
        assert list(zip(record["token_start"], record["token_stop"], strict=True)) == list(example.blocks)
        assert record["tokens"] == example.tokens.tolist()
        assert record["document_tokens"] == example.query.start
        assert (record["question"], record["answer"]) == (given.question, given.answer)
        assert record["candidates"] == list(given.candidates)
        attention = pool_attention(answer_attention(model, example.tokens[None], example.blocks), heads="mean")
        assert record["attention"] == pytest.approx(attention[0].tolist(), abs=1e-5)
        assert record["cost"] > 2 * len(example.tokens)
        scorer = ForcedChoice(lambda e: e.candidates) if given.candidates else TeacherForced()
        effects = Effects([example], Fast(model), scorer, effort="exact" if effort == "evidence" else effort)
        assert record["clean_correct"] == effects.clean_correct.item()
        assert record["clean_log_prob"] == pytest.approx(effects.clean_log_prob.item(), abs=1e-3)
        if given.candidates or effort == "exact":
            drop = torch.where(torch.tensor(record["measured"]), effects.drop[0], 0.0)
            assert record["drop"] == pytest.approx(drop.tolist(), abs=1e-3)
        if given.candidates:
            (evidence,) = find_evidence(effects)
            assert (record["rule"], record["worth"], record["others"]) == ("paper", 0, [])
            assert record["sufficient"] == effects.sufficient[0].tolist()
            assert (set(record["evidence"]), record["case"]) == (evidence.blocks, evidence.case)
            if effort != "evidence":
                assert record["measured"] == effects.hidden.measured[0].tolist()
                assert record["flip"] == effects.flip[0].tolist()
        else:
            support = find_support(Answer(example, Fast(model)), effort=effort)
            supported = support.worth >= LEAST_WORTH and support.evidence
            assert (record["rule"], record["worth"]) == ("worth", pytest.approx(support.worth, abs=1e-3))
            assert set(record["evidence"]) == (support.evidence | support.others if supported else set())
            assert set(record["others"]) == (support.others if supported else set())
            assert all(record["measured"]) or effort != "exact"
    assert any(record["evidence"] for record in found if record["rule"] == "worth"), "else nothing was tested"


@pytest.mark.parametrize("seed", range(3))
def test_blocks_are_hidden_for_candidates_only_where_none_is_enough(sharp: Loaded, write: Write, seed: int) -> None:
    """Effort ``evidence`` finds what ``exact`` finds."""
    rows = [row(i, candidates=["42", str(17 + seed), str(4000 + i)]) for i in range(6)]
    quick, exact = (
        label_rows(read_lines(write(*rows)), Labeller(*sharp, "paragraph", effort)).records
        for effort in ("evidence", "exact")
    )
    for few, all_of_them in zip(quick, exact, strict=True):
        assert (few.evidence, few.case, few.sufficient) == (
            all_of_them.evidence,
            all_of_them.case,
            all_of_them.sufficient,
        )
        assert few.measured == [not any(few.sufficient)] * few.n_blocks
        if not any(few.sufficient):
            assert (few.drop, few.flip) == (pytest.approx(all_of_them.drop, abs=1e-3), all_of_them.flip)
    assert sum(found.cost for found in quick) < sum(found.cost for found in exact)


@pytest.mark.parametrize("candidates", [{}, CANDIDATES])
def test_a_context_is_read_once_for_all_its_rows(sharp: Loaded, write: Write, candidates: dict[str, Any]) -> None:
    context = " ".join(f"The code for NARO{i} is {4000 + i}." for i in range(12))
    asked = [row(0, context=context, question=f"What is the code for NARO{i}?", **candidates) for i in (3, 7, 9)]
    lines = read_lines(write(asked[0], row(1, **candidates), asked[1], row(2, **candidates), asked[2]))
    together = label_rows(lines, Labeller(*sharp, "sentence")).records
    alone = [found for line in lines for found in label_rows([line], Labeller(*sharp, "sentence")).records]
    for shared, own in zip(together, alone, strict=True):
        numbers = ("clean_log_prob", "worth", "drop", "attention")
        for name in numbers:
            assert getattr(shared, name) == pytest.approx(getattr(own, name), abs=1e-3)
        assert shared.model_dump(exclude={*numbers, "cost"}) == own.model_dump(exclude={*numbers, "cost"})
    questions = [i for i, found in enumerate(together) if found.n_blocks == 12]
    assert sum(together[i].cost for i in questions) < sum(alone[i].cost for i in questions)


def test_the_columns_are_declared_once(tiny: Loaded, write: Write, tmp_path: Path) -> None:
    assert schema_of(LabelRow).names == list(LabelRow.model_fields)
    label(write(row(1), OWN_BLOCKS), tiny, tmp_path / "out")
    (shard,) = (tmp_path / "out" / "data").iterdir()
    found = list(read_rows(shard, LabelRow))
    assert [one.model_dump() for one in found] == table(tmp_path / "out")
    assert [one.own_blocks for one in found] == [False, True]
    assert columns_table(LabelRow) in (Path(__file__).parents[2] / "docs" / "label.md").read_text()


def test_bad_rows_are_rejected_with_line_reason_and_row(tiny: Loaded, write: Write, tmp_path: Path) -> None:
    bad = {
        2: (b"{broken", "row: expected one JSON object"),
        3: ({"context": "x", "answer": "y"}, "question: expected some text, but the row has no such field"),
        4: (row(4, answer=""), "answer: expected some text, got ''"),
        5: (row(5, candidates=["42", "42 or 9"]), "candidates: expected none to be a prefix of another"),
        6: (row(6, candidates=["17", "9"]), "candidates: expected the answer '42' among them"),
        7: (row(7, context="word " * 3000), "context: expected at most 2048 positions"),
        8: (row(8, question=["?"]), "question: expected some text, got ['?']"),
        9: (b'{"context": "\xff"}', "row: expected UTF-8"),
        10: (b'{"context": "\\ud800", "question": "q", "answer": "a"}', "half of a surrogate pair"),
    }
    data = write(row(1), *(given for given, _ in bad.values()), b"", row(12))
    done = label(data, tiny, tmp_path / "out")
    assert (done.rows, done.rejected) == (2, 9)
    assert [record["line"] for record in table(tmp_path / "out")] == [1, 12]
    found = rejects(tmp_path / "out")
    assert [reject["line"] for reject in found] == list(bad)
    for reject in found:
        given, reason = bad[reject["line"]]
        assert reason in reject["reason"]
        assert reject["row"] == given if isinstance(given, dict) else isinstance(reject["row"], str)


class Failing(Labeller):
    """Fails on rows that ask for it, whoever is labelled beside them."""

    error: Exception

    def label(self, rows: Any) -> Any:
        if any(found.row.id == "fails" for found in rows):
            raise self.error
        return super().label(rows)


@pytest.mark.parametrize("error", [RuntimeError("not enough memory"), FloatingPointError("odd"), MemoryError()])
def test_a_row_that_fails_takes_no_other_with_it(tiny: Loaded, write: Write, error: Exception) -> None:
    data = write(row(1), row(2, id="fails"), row(3))
    labeller = Failing(*tiny, "paragraph", "exact")
    labeller.error = error
    records, rejected = label_rows(read_lines(data), labeller)
    assert [record.line for record in records] == [1, 3]
    assert [reject.reason for reject in rejected] == [f"model: {type(error).__name__}: {error}"]


def test_a_lost_device_stops_the_job(tiny: Loaded, write: Write) -> None:
    labeller = Failing(*tiny, "paragraph", "exact")
    labeller.error = torch.AcceleratorError("device lost")
    with pytest.raises(torch.AcceleratorError):
        label_rows(read_lines(write(row(1, id="fails"))), labeller)


def test_numbers_that_are_none_reject_only_their_row(
    tiny: Loaded, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, tokenizer = tiny
    snowman = tokenizer("☃", add_special_tokens=False)["input_ids"][-1]
    clean = model.get_input_embeddings().weight.detach()[snowman].clone()
    data = write(row(1, context="It rains.\n\nIt pours."), row(2), row(3, context="It rains.\n\nIt snows."))
    labeller = Labeller(model, tokenizer, "paragraph", "exact")
    try:
        with torch.no_grad():
            model.get_input_embeddings().weight[snowman] = math.nan
        records, rejected = label_rows(read_lines(data), labeller)
    finally:
        with torch.no_grad():
            model.get_input_embeddings().weight[snowman] = clean
    assert [record.line for record in records] == [1, 3]
    assert [(reject.line, reject.row) for reject in rejected] == [(2, json.dumps(row(2)))]


@pytest.mark.parametrize("lines", [[], [b"", b"  "]], ids=["empty", "blank"])
def test_a_file_without_rows_is_an_error(tmp_path: Path, write: Write, lines: list[bytes]) -> None:
    with pytest.raises(ValueError, match=r"data.jsonl: expected at least one row, got none"):
        label(write(*lines), "no-such-model", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_data_of_which_nothing_can_be_labelled_is_an_error(tiny: Loaded, write: Write, tmp_path: Path) -> None:
    for _ in range(2):  # again, when all is done
        with pytest.raises(ValueError, match=r"got 2 rejects, see .*rejects.jsonl; the first one: row: expected one"):
            label(write(b"{", b"[]"), tiny, tmp_path / "out")
    assert table(tmp_path / "out") == []
    assert len(rejects(tmp_path / "out")) == 2
    assert pq.read_schema(tmp_path / "out" / "data" / "shard-00000.parquet").names == schema_of(LabelRow).names


def test_datasets_reads_the_folder_and_its_tables(tiny: Loaded, write: Write, tmp_path: Path) -> None:
    data = write(row(1), row(2, **CANDIDATES), b"{", b"{", OWN_BLOCKS)  # the second shard has no rows
    label(data, tiny, tmp_path / "out", shard_rows=2)
    for loaded in (
        datasets.load_dataset(str(tmp_path / "out"), cache_dir=str(tmp_path / "cache")),
        datasets.load_dataset(
            "parquet",
            data_files={"train": str(tmp_path / "out" / "data" / "*.parquet")},
            cache_dir=str(tmp_path / "cache"),
        ),
    ):
        assert loaded["train"]["line"][:] == [1, 2, 5]
        assert loaded["train"][0] == table(tmp_path / "out")[0]


def test_datasets_does_not_mix_up_folders_of_one_name(tiny: Loaded, write: Write, tmp_path: Path) -> None:
    for number, rows in enumerate(([row(1)], [row(2), row(3)])):
        folder = tmp_path / str(number) / "labels"
        label(write(*rows), tiny, folder)
        loaded = datasets.load_dataset(str(folder), cache_dir=str(tmp_path / "cache"))
        assert len(loaded["train"]) == len(rows)


def test_shards_are_cut_by_rows_and_cover_every_line(write: Write) -> None:
    data = write(b"", b"1", b"2", b"", b"3", b"", b"")
    plan = plan_shards(open_source(data), 2)
    assert [(s.first_line, s.last_line, s.rows) for s in plan.shards] == [(1, 4, 2), (5, 7, 1)]
    assert plan.rows == 3
    groups = list(plan.groups(plan.shards, {}))
    assert [line for group in groups for line in group.lines] == [line for line in read_lines(data) if line.content]
    assert list(plan.groups(plan.shards[1:], {})) == groups[1:]
    assert list(plan.groups(plan.shards, {0: {0}})) == groups[1:]


def test_a_file_that_changes_under_the_job_stops_it(
    tiny: Loaded, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = write(*(row(i) for i in range(3)))

    def meddle(rows: Any, labeller: Labeller) -> Any:
        data.write_bytes(data.read_bytes() + b"{}\n")
        return label_rows(rows, labeller)

    monkeypatch.setattr(labelling_module, "label_rows", meddle)
    with pytest.raises(ValueError, match="expected the file to stay as it is while it is worked on"):
        label(data, tiny, tmp_path / "out", shard_rows=1)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"effort": "fast"}, "effort: expected one of evidence, exact, grouped, certified, got 'fast'"),
        ({"blocks": "chapter"}, "blocks: expected 'sentence', 'paragraph'"),
        ({"shard_rows": 0}, "shard_rows: expected at least 1, got 0"),
    ],
)
def test_wrong_options_write_nothing(
    tiny: Loaded, write: Write, tmp_path: Path, arguments: dict[str, Any], text: str
) -> None:
    with pytest.raises(ValueError, match=text):
        label(write(row(1)), tiny, tmp_path / "out", **arguments)
    assert not (tmp_path / "out").exists()


def test_a_missing_file_is_named_before_the_model_is_loaded(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"none.jsonl: expected a JSONL or Parquet file .*, got nothing there"):
        label(tmp_path / "none.jsonl", "no-such-model", tmp_path / "out")


def test_label_is_part_of_the_package() -> None:
    assert keepset.label is label
