"""``keepset train``: from a JSONL file to a router, what it learns from, and what it refuses."""

import json
import random
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import keepset
from keepset.blocks import Span
from keepset.cli import main
from keepset.files import sha256
from keepset.jobs.kinds import LABELS
from keepset.jobs.labelling import LabelRow, Loaded
from keepset.jobs.manifest import read_manifest
from keepset.jobs.stored import LabelManifest, check_labels
from keepset.jobs.tables import read_rows
from keepset.jobs.training import read_documents, router_examples, teaches
from keepset.paper.bench.models import tiny_model
from keepset.routers.block import load_block_router, score_document
from keepset.text.jsonl import Line, parse_row, row_example

pytestmark = pytest.mark.long

NAMES = ("NARO", "BELU", "KIPA", "TOFE", "SUGI", "HAMO")


def rows(n_documents: int, seed: int = 0) -> list[dict[str, object]]:
    """Documents of 6 to 8 sentences, two questions each; a row's own blocks are its sentences."""
    draw = random.Random(seed)
    found = []
    for _ in range(n_documents):
        names = draw.sample(NAMES, 2)
        facts = [f"The code for {name} is {draw.randrange(1000, 10_000)}." for name in names]
        blocks = facts + ["Nobody is here."] * draw.randrange(4, 7)
        draw.shuffle(blocks)
        for name, fact in zip(names, facts, strict=True):
            code = fact[-5:-1]
            found.append(
                {
                    "blocks": blocks,
                    "question": f"What is the code for {name}?",
                    "answer": code,
                    "candidates": [code, code[::-1] if code != code[::-1] else "1234"],
                }
            )
    return found


def run(*arguments: object) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["keepset", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
    return int(stop.value.code or 0)


@pytest.fixture(scope="module")
def tiny() -> Loaded:
    return tiny_model()


@pytest.fixture(scope="module")
def model_folder(tiny: Loaded, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "tiny"
    for part in tiny:
        part.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def labels(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """24 documents, labelled by the command; the untrained model finds evidence by chance alone."""
    folder = tmp_path_factory.mktemp("data")
    data = folder / "data.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows(24)))
    assert run("label", data, "--model", model_folder, "--out", folder / "labels", "--shard-rows", 20) == 0
    return folder / "labels"


def relabel(labels: Path, out: Path) -> Path:
    """A copy in which every question is answered, from the sentence that holds its code."""
    (out / "data").mkdir(parents=True)
    (out / "manifest.json").write_bytes((labels / "manifest.json").read_bytes())
    for path in (labels / "data").iterdir():
        table = pq.read_table(path)
        changed = table.to_pylist()
        for row in changed:
            row["clean_correct"], row["case"] = True, "alternatives"
            row["evidence"] = [i for i, text in enumerate(row["blocks"]) if row["answer"] in text]
        pq.write_table(pa.Table.from_pylist(changed, schema=table.schema), out / "data" / path.name)
    stamped(out)
    return out


def stamped(folder: Path, shards: int | None = None) -> LabelManifest:
    """A manifest of the (first) tables as they are now."""
    manifest = read_manifest(folder / "manifest.json", LABELS)
    assert manifest is not None
    now = [
        shard.model_copy(update={"sha256": sha256(folder / shard.file), "rejects_sha256": None})
        for shard in manifest.shards[:shards]
    ]
    manifest = manifest.model_copy(update={"shards": tuple(now)})
    (folder / "manifest.json").write_text(manifest.text())
    return manifest


@pytest.mark.parametrize("regime", ["pre_query", "query_aware"])
@pytest.mark.parametrize("target", ["causal", "imitation"])
def test_from_a_jsonl_file_to_a_router(
    labels: Path, tiny: Loaded, tmp_path: Path, capsys: pytest.CaptureFixture[str], regime: str, target: str
) -> None:
    out = tmp_path / "router"
    capsys.readouterr()
    assert run("train", labels, "--regime", regime, "--target", target, "--out", out, "--steps", 3) == 0
    printed = capsys.readouterr()
    assert printed.out == f"router in {out}: {regime}, {target}, for tiny and own blocks\n"
    assert f"{labels}: rows 48, with evidence " in printed.err
    router = load_block_router(out)
    assert (router.regime, router.target) == (regime, target)
    tokens = torch.arange(20)
    question = tokens[:5] if regime == "query_aware" else None
    assert score_document(router, tiny[0], tokens, [Span(0, 10), Span(10, 20)], question).shape == (2,)


def test_from_a_jsonl_file_to_an_answer(
    labels: Path, model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    router, pruned, document = tmp_path / "router", tmp_path / "doc.pruned", tmp_path / "doc.txt"
    document.write_text(" ".join(rows(1, seed=5)[0]["blocks"]))  # type: ignore[arg-type]
    assert run("train", labels, "--out", router, "--steps", 3) == 0
    prune = ("prune", document, "--model", model_folder, "--router", router, "--blocks", "sentence")
    assert run(*prune, "--budget", "0.5", "--out", pruned) == 0
    assert "by routed, pre_query, global" in capsys.readouterr().out
    assert run("ask", pruned, "What is the code for NARO?", "--max-new-tokens", 3) == 0
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) >= 1
    assert "answered from " in printed.err


def test_a_router_finds_the_facts_of_documents_it_has_not_seen(labels: Path, tiny: Loaded, tmp_path: Path) -> None:
    """Two facts among 6 to 8 sentences: two sentences taken at random hold less than a third of them."""
    model, tokenizer = tiny
    router = keepset.train(relabel(labels, tmp_path / "labels"), model=model, steps=100)
    hits = []
    for row in rows(20, seed=1)[::2]:
        example = row_example(parse_row(Line(1, json.dumps(row).encode())), tokenizer, "sentence")
        scores = score_document(router, model, example.tokens[: example.query.start], example.blocks)
        hits += ["code" in example.block_texts[i] for i in scores.topk(2).indices]
    assert sum(hits) / len(hits) > 0.9


@pytest.mark.parametrize("regime", ["pre_query", "query_aware"])
def test_training_says_what_it_finds_in_documents_it_held_out(
    labels: Path, tiny: Loaded, tmp_path: Path, capsys: pytest.CaptureFixture[str], regime: str
) -> None:
    """Of 24 documents four, each with two facts that stand out whatever is asked."""
    folder = relabel(labels, tmp_path / "labels")
    keepset.train(folder, model=tiny, regime=regime, steps=100)
    said = capsys.readouterr().err.splitlines()
    (line,) = (line for line in said if line.startswith("held out: "))
    assert line.startswith("held out: documents 4, questions 8; recall of their evidence ")
    at_10, at_25 = (float(part.split()[0]) for part in line.split("evidence ")[1].split("blocks, "))
    assert at_10 <= at_25
    assert at_25 > 0.8 or regime == "query_aware", "two of 6 to 8 sentences"
    assert not [line for line in said if line.startswith("few documents")]


def test_few_documents_do_not_pass_in_silence(
    labels: Path, tiny: Loaded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = relabel(labels, tmp_path / "labels")
    first = check_labels(folder).shards[0].file
    for n_rows, held_out in ((8, False), (12, True)):
        other = tmp_path / str(n_rows)
        (other / "data").mkdir(parents=True)
        (other / "manifest.json").write_bytes((folder / "manifest.json").read_bytes())
        pq.write_table(pq.read_table(folder / first).slice(0, n_rows), other / first)
        stamped(other, 1)
        capsys.readouterr()
        keepset.train(other, model=tiny, steps=2)
        said = capsys.readouterr().err
        assert f"few documents: {n_rows // 2}" in said
        assert ("held out: documents 1, questions 2" in said) == held_out


def test_rows_of_worth_count_whether_or_not_the_model_answers(labels: Path, tmp_path: Path) -> None:
    folder = relabel(labels, tmp_path / "labels")
    manifest = check_labels(folder)
    path = folder / manifest.shards[0].file
    (first, second, *_) = read_rows(path, LabelRow)
    assert first.rule == second.rule == "paper"
    assert teaches(first)
    assert not teaches(first.model_copy(update={"clean_correct": False}))
    worth = first.model_copy(update={"clean_correct": False, "rule": "worth", "worth": 3.0})
    assert teaches(worth)
    assert not teaches(worth.model_copy(update={"evidence": [], "case": "empty"}))
    assert not teaches(worth.model_copy(update={"evidence": list(range(worth.n_blocks))}))


def test_what_a_document_and_a_question_teach(labels: Path, tiny: Loaded, tmp_path: Path) -> None:
    folder = relabel(labels, tmp_path / "labels")
    documents = read_documents(folder, check_labels(folder))
    assert len(documents) == 24
    before_query, after_query = (list(router_examples(documents, regime)) for regime in ("pre_query", "query_aware"))
    assert (len(before_query), len(after_query)) == (24, 48)
    for document, example in zip(documents, before_query, strict=True):
        first, second = document.questions
        assert example.question is None
        assert example.attention is None, "to be read from the document"
        assert example.evidence.shape == (1, len(document.blocks))
        assert torch.equal(example.evidence[0], first.evidence | second.evidence)
        assert int(example.evidence.sum()) == 2
    questions = [question for document in documents for question in document.questions]
    for question, example in zip(questions, after_query, strict=True):
        assert example.question is question.tokens
        assert torch.equal(example.evidence[0], question.evidence)
        assert example.attention is question.attention


def test_a_router_remembers_the_blocks_of_its_labels(
    labels: Path, tiny: Loaded, model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the guide does it: label by sentence, train, prune without a word about blocks."""
    data = tmp_path / "data.jsonl"
    cut = [{**row, "context": " ".join(row["blocks"])} for row in rows(12)]  # type: ignore[arg-type]
    data.write_text("".join(json.dumps({k: v for k, v in row.items() if k != "blocks"}) + "\n" for row in cut))
    found, router, document = tmp_path / "labels", tmp_path / "router", tmp_path / "doc.txt"
    assert run("label", data, "--model", model_folder, "--blocks", "sentence", "--out", found) == 0
    assert run("train", found, "--out", router, "--steps", 2) == 0
    assert "for tiny and sentence blocks" in capsys.readouterr().out
    assert load_block_router(router).blocks == "sentence"
    document.write_text(str(cut[0]["context"]))
    prune = ("prune", document, "--model", model_folder, "--router", router, "--budget", "0.5", "--out")
    assert run(*prune, tmp_path / "pruned") == 0
    assert f"of {len(cut[0]['blocks'])} blocks" in capsys.readouterr().out  # type: ignore[arg-type]
    assert run(*prune, tmp_path / "other", "--blocks", "128") == 1
    said = capsys.readouterr().err
    assert "blocks: expected sentence blocks, which this router was trained on, got blocks of 128 tokens" in said
    assert said.count("\n") == 1
    assert keepset.train(labels, model=tiny, steps=1).blocks == "own"


def test_bad_input_is_one_clear_line(
    labels: Path, model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, other = tmp_path / "router", tmp_path / "other"
    other.mkdir()
    (other / "thesis.txt").write_text("years of work")

    def refused(*arguments: object) -> str:
        capsys.readouterr()
        assert run("train", *arguments) == 1
        printed = capsys.readouterr().err
        assert "Traceback" not in printed
        assert not out.exists()
        return printed

    assert "expected a folder written by 'keepset label' (with a manifest.json), got no folder" in refused(
        tmp_path / "nowhere", "--out", out
    )
    assert "(with a manifest.json), got another one" in refused(other, "--out", out)
    assert "holds only a router, got thesis.txt" in refused(labels, "--out", other)
    assert "regime: expected one of pre_query, query_aware, got 'blind'" in refused(
        labels, "--out", out, "--regime", "blind"
    )
    assert "target: expected one of causal, imitation, got 'x'" in refused(labels, "--out", out, "--target", "x")

    model, tokenizer = tiny_model()
    with torch.no_grad():
        model.lm_head.weight.add_(1)
    for part in (model, tokenizer):
        part.save_pretrained(tmp_path / "trained")
    assert "expected the model that made these labels" in refused(labels, "--out", out, "--model", tmp_path / "trained")


def test_an_answer_that_any_block_gives_depends_on_none(labels: Path, tmp_path: Path) -> None:
    folder = relabel(labels, tmp_path / "labels")
    manifest = check_labels(folder)
    before = sum(len(document.questions) for document in read_documents(folder, manifest))
    path = folder / manifest.shards[0].file
    table = pq.read_table(path)
    changed = table.to_pylist()
    changed[0]["evidence"] = list(range(changed[0]["n_blocks"]))
    changed[1] |= {"evidence": list(range(changed[1]["n_blocks"])), "case": "necessary"}
    pq.write_table(pa.Table.from_pylist(changed, schema=table.schema), path)
    assert sum(len(document.questions) for document in read_documents(folder, stamped(folder))) == before - 1


def test_labels_that_teach_nothing(labels: Path, tiny: Loaded, tmp_path: Path) -> None:
    folder = relabel(labels, tmp_path / "labels")
    manifest = check_labels(folder)
    for shard in manifest.shards:
        table = pq.read_table(folder / shard.file)
        wrong = [row | {"clean_correct": False} for row in table.to_pylist()]
        pq.write_table(pa.Table.from_pylist(wrong, schema=table.schema), folder / shard.file)
    stamped(folder)
    with pytest.raises(
        ValueError, match="expected rows whose answer rests on some blocks and not on others, got 0 of 48"
    ):
        keepset.train(folder, model=tiny)
    (folder / manifest.shards[0].file).write_bytes(b"PAR1")
    with pytest.raises(ValueError, match=r"shard-00000\.parquet: expected the bytes that were written"):
        keepset.train(folder, model=tiny)
    stamped(folder)
    with pytest.raises(ValueError, match=r"shard-00000\.parquet: expected a table with id, line, question"):
        keepset.train(folder, model=tiny)
    stamped(folder, 0)
    with pytest.raises(ValueError, match="expected finished labels, got none yet; run 'keepset label' again"):
        keepset.train(folder, model=tiny)
    with pytest.raises(ValueError, match="steps: expected at least 1, got 0"):
        keepset.train(folder, steps=0)
