"""Eviction end to end on an untrained model that is made to answer exactly when it can read the evidence."""

from pathlib import Path

import pytest

from keepset.interventions import Reference
from keepset.paper.eviction import experiment as eviction
from keepset.paper.eviction.reader import Reader, Tally, answers_masked
from keepset.paper.experiment import run_missing
from keepset.pruning.cache import EvictionMode, KeptCache
from keepset.text.document import Question


def reads_evidence(reader: Reader, question: Question, caches: list[KeptCache]) -> list[bool]:
    needed = {p for i in question.evidence for p in range(*reader.document.blocks[i])}
    return [needed <= set(cache.positions.tolist()) for cache in caches]


@pytest.fixture
def reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Reader, "_judge", reads_evidence)
    eviction.routed.cache_clear()
    return tmp_path


def test_what_is_preserved_is_what_was_kept(reading: Path) -> None:
    results = dict(run_missing(eviction.jobs("smoke"), reading / "results", "small"))
    assert [name.split("/")[-1] for name in results] == [f"{task}-512-part0" for task in eviction.TASKS]
    found = {metric.name: metric for result in results.values() for metric in result.metrics}
    policies = ["causal_r0", "causal_r1", "causal_r2", "imitation_r0", "h2o", "snapkv", "momentkv", "restkv"]
    policies += ["kvzip", "recency", "random", "oracle"]
    for condition in (*eviction.TASKS, "register_log_any"):
        assert found[f"{condition}/dense"].value == 1.0
        for policy in policies:
            for mode in eviction.MODES:
                name = f"{condition}/pre_query/{mode}/{policy}/0.25"
                assert found[f"{name}/preserved"].value == found[f"{name}/evidence_kept"].value
                assert found[f"{name}/preserved"].n == 2
    for condition in (*eviction.TASKS, "register_log_any"):
        assert f"{condition}/query_aware/global/snapkv/0.1/preserved" in found
        assert f"{condition}/query_aware/global/h2o/0.1/preserved" not in found
    assert found["single/pre_query/global/oracle/0.25/preserved"].value == 1.0
    assert found["multikey/feasible/0.5"].n == 2
    assert not (reading / "routers" / "smoke" / "tiny" / "pre_query-causal-3").exists()
    assert (reading / "routers" / "smoke" / "tiny" / "query_aware-imitation-2" / "model.safetensors").is_file()


def test_both_registers_are_asked_of_one_text() -> None:
    _, tokenizer = eviction.loaded("tiny")
    for conditions in eviction.part_documents(tokenizer, "register_log", 512, 3, part=1):
        log, control = conditions["register_log"], conditions["register_log_any"]
        assert log.text == control.text
        assert log.asked == 0


def test_parts_are_different_documents() -> None:
    _, tokenizer = eviction.loaded("tiny")
    texts = [
        conditions["single"].text
        for part in range(2)
        for conditions in eviction.part_documents(tokenizer, "single", 512, 2, part)
    ]
    assert len(set(texts)) == 4


def test_dropping_is_the_mask_operator() -> None:
    model, tokenizer = eviction.loaded("tiny")
    ((_, document),) = eviction.part_documents(tokenizer, "single", 512, 1, 0)[0].items()
    question = document.questions[0]
    reader = Reader(model, tokenizer, document)
    for keep in (frozenset({0}), frozenset({3, 7}), reader.everything):
        assert reader.answers(0, keep, "global") == answers_masked(Reference(model), question, keep)


@pytest.mark.parametrize("mode", eviction.MODES)
def test_keep_sets_read_together_are_judged_each_for_itself(
    monkeypatch: pytest.MonkeyPatch, mode: EvictionMode
) -> None:
    model, tokenizer = eviction.loaded("tiny")
    ((_, document),) = eviction.part_documents(tokenizer, "single", 512, 1, 0)[0].items()
    needed = document.questions[0].evidence
    together: list[int] = []

    def judge(reader: Reader, question: Question, caches: list[KeptCache]) -> list[bool]:
        together.append(len(caches))
        return reads_evidence(reader, question, caches)

    monkeypatch.setattr(Reader, "_judge", judge)
    reader = Reader(model, tokenizer, document)
    others = sorted(reader.everything - needed)
    n = len(needed)
    keeps = [frozenset(others[:n]), needed, frozenset(others[: n + 2]), needed | frozenset(others[3:5])]
    reader.read(0, [*keeps, *keeps], mode)
    assert together == [2, 2], "one forward for each size, nothing twice"
    assert [reader.answers(0, keep, mode) for keep in keeps] == [False, True, False, True]
    assert len(together) == 2, "what is known is not read again"


def test_a_tally_separates_what_was_kept_from_what_was_dropped() -> None:
    tally = Tally()
    for preserved, kept in ((True, True), (True, True), (False, True), (True, False)):
        tally.add(preserved, kept)
    found = {metric.name: (metric.value, metric.n) for metric in tally.metrics("x")}
    assert found == {
        "x/preserved": (0.75, 4),
        "x/evidence_kept": (0.75, 4),
        "x/preserved_given_kept": (2 / 3, 3),
        "x/preserved_given_dropped": (1.0, 1),
    }
