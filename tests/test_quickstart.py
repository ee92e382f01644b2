"""The quickstart on an untrained model that is made to answer exactly when it can read the evidence."""

from pathlib import Path

import pytest
from rich.console import Console

from keepset.paper.bench.engine import tiny_model
from keepset.paper.eviction.reader import Reader
from keepset.policies.routed import Routed
from keepset.pruning import Pruner
from keepset.pruning.cache import KeptCache
from keepset.quickstart import Plan, run_on, run_quickstart
from keepset.text.document import Question

PLAN = Plan(labelled=1, training_documents=4, steps=5, held_out=2, held_out_tokens=512)


def reads_evidence(reader: Reader, question: Question, caches: list[KeptCache]) -> list[bool]:
    needed = {reader.document.blocks[i].start for i in question.evidence}
    return [needed <= set(cache.positions.tolist()) for cache in caches]


def test_everything_that_is_promised_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Reader, "_judge", reads_evidence)
    model, tokenizer = tiny_model()
    console = Console(record=True, width=140)
    out = tmp_path / "out"
    run_on(model, tokenizer, out, console, PLAN)
    text = console.export_text()
    for said in (
        "What is the special magic number",
        "if hidden",
        "causal router",
        "imitation router",
        "of 8 (95 %",
        "all facts, known",
    ):
        assert said in text
    page = (out / "report.html").read_text()
    assert "<svg" in page
    assert "<script" not in page
    assert (out / "pruning.svg").is_file()
    pruned = Pruner(model, tokenizer, Routed.from_pretrained(out / "router"), blocks=32).prune("word " * 400, 0.25)
    assert len(pruned.text) < 5 * 400
    run_on(model, tokenizer, out, console, PLAN)  # again, over its own files


def test_a_folder_with_other_things_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(ValueError, match="expected an empty folder or an earlier quickstart"):
        run_quickstart(tmp_path, Console())
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


def test_a_model_that_answers_nothing_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Reader, "_judge", lambda reader, question, caches: [False] * len(caches))
    model, tokenizer = tiny_model()
    with pytest.raises(ValueError, match="expected the model to answer some questions"):
        run_on(model, tokenizer, tmp_path / "out", Console(quiet=True), PLAN)
