"""Eviction end to end on an untrained model that is made to answer exactly when it can read the evidence."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from keepset.interventions import Reference
from keepset.paper.bench.models import loaded
from keepset.paper.eviction import curve, documents, run
from keepset.paper.eviction.columns import ALL_CONDITIONS, CONTROL, MODES, Arm
from keepset.paper.eviction.documents import Part, part_documents, readings
from keepset.paper.eviction.experiment import EXPERIMENT
from keepset.paper.eviction.pool import pooled
from keepset.paper.eviction.reader import Reader, answers_masked, unread_keys
from keepset.paper.eviction.routers import TASKS
from keepset.paper.eviction.tally import Tally, only_first
from keepset.paper.experiment import run_missing
from keepset.paper.result import RunResult
from keepset.paper.results import Results
from keepset.paper.table import Figure, Table
from keepset.policies import BOTH, POLICIES, Context
from keepset.pruning.cache import EvictionMode, KeptCache, prefill_kept, read_after
from keepset.text.document import Document, Question

pytestmark = pytest.mark.long

(SMOKE,) = run.SETTINGS["smoke"]
ASKING = ("bm25", "question_likelihood")
"""Policies that need the question."""


def reads_evidence(
    reader: Reader, question: Question, caches: list[KeptCache], query: Tensor | None = None
) -> list[bool]:
    needed = {p for i in question.evidence for p in range(*reader.document.blocks[i])}
    return [needed <= set(cache.positions.tolist()) for cache in caches]


def forget() -> None:
    """What one test read and trained is nothing to the next."""
    for cached in (run.routed, documents._held, documents.part_documents):
        cached.cache_clear()


@pytest.fixture
def reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Reader, "_judge", reads_evidence)
    monkeypatch.setattr(Reader, "_judge_text", lambda reader, question, keep: question.evidence <= keep)
    forget()
    yield tmp_path
    forget()


def document(task: str = "single") -> Document:
    return part_documents(Part("tiny", task, 512, 1, 0))[0][task]


def run_all(folder: Path) -> dict[str, RunResult]:
    return dict(run_missing(EXPERIMENT.jobs("smoke"), folder / "results", "small"))


@dataclass(frozen=True)
class Whole:
    """The smoke scale, run once."""

    folder: Path
    """With its routers and results."""
    made: dict[str, RunResult]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(Reader, "_judge", reads_evidence)
        patch.setattr(Reader, "_judge_text", lambda reader, question, keep: question.evidence <= keep)
        forget()
        made = run_all(folder)
    forget()
    return Whole(folder, made)


def test_what_is_preserved_is_what_was_kept(whole: Whole) -> None:
    made = whole.made
    policies = ["causal", "imitation", "twin", *POLICIES, "oracle"]
    files = ("dense", *policies, "kvzip_tokens")
    assert list(made) == [f"eviction/tiny/lines/{task}-512-part0/{name}" for task in TASKS for name in files]
    results = Results(made)
    for condition in ALL_CONDITIONS:
        assert results.metric("dense", condition=condition).each == "11"
        for policy in policies:
            if policy in ASKING:
                continue
            for mode in MODES:
                where = {"condition": condition, "regime": "pre_query", "mode": mode, "policy": policy, "budget": 0.25}
                seeds = {"causal": [0, 1, 2], "imitation": [0], "twin": [0]}.get(policy, [None])
                for seed in seeds:
                    at = where if seed is None else where | {"router_seed": seed}
                    preserved = results.metric("preserved", **at)
                    kept = results.metric("evidence_kept", **at)
                    assert preserved.value == kept.value
                    assert (preserved.n, preserved.each) == (2, kept.each)
        regimes = {
            policy: set(results.select("preserved", condition=condition, policy=policy)["regime"])
            for policy in policies
        }
        for blind in ("twin", "kvzip", "kvzip_max", "expected_attention", "words"):
            assert regimes.pop(blind) == {"pre_query"}, "it says which regimes it serves"
        for asking in ASKING:
            assert regimes.pop(asking) == {"query_aware"}
        tokens = results.select("preserved", condition=condition, policy="kvzip_tokens")
        assert set(tokens["mode"]) == {"post_prefill"}
        assert set(tokens["budget"]) == {0.1, 0.25, 0.5}
        assert results.select("evidence_kept", condition=condition, policy="kvzip_tokens").empty
        assert all(found == {"pre_query", "query_aware"} for found in regimes.values())
    at = {"condition": "single", "regime": "pre_query", "mode": "global", "policy": "oracle", "budget": 0.25}
    assert results.value("preserved", **at) == 1.0
    assert results.metric("feasible", condition="multikey", budget=0.5).n == 2
    assert results.metric("global_equals_mask", condition="single").n == 2
    assert results.select("global_equals_mask", condition="variable_tracking").empty, "generated answers are not held"
    routers = whole.folder / "routers" / "smoke" / "tiny" / "lines"
    assert not (routers / "pre_query" / "causal-3").exists()
    assert (routers / "query_aware" / "imitation-0" / "model.safetensors").is_file()
    assert not (routers / "query_aware" / "twin-0").exists(), "KVzip never sees the question"
    for run_made in made.values():
        assert run_made.config["blocks"] == run_made.at["blocks"] == "line"
        if run_made.at.get("policy") in ("causal", "imitation"):
            assert {run_made.counts[f"{regime}_steps"] for regime in ("pre_query", "query_aware")} <= {2, 5}


class Backwards:
    """The last blocks first, whatever they say."""

    name = "backwards"
    regimes = BOTH

    def score(self, context: Context) -> Tensor:
        return torch.arange(float(len(context.blocks)))


def test_a_policy_added_to_the_list_runs_alone_and_comes_into_every_comparison(
    reading: Path, whole: Whole, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(whole.folder, reading, dirs_exist_ok=True)
    monkeypatch.setitem(POLICIES, Backwards.name, lambda tokenizer: Backwards())
    after = run_all(reading)
    assert list(after) == [f"eviction/tiny/lines/{task}-512-part0/backwards" for task in TASKS]
    results = Results(whole.made | after)
    made = {item.name: item for report in EXPERIMENT.reports for item in report.make(results)}
    for name in ("tab-qa-tiny-lines", "tab-pq-tiny-lines-512-text", "tab-pq-staleany", "eviction-orderings"):
        table = made[name]
        assert not isinstance(table, Figure)
        assert next(row[table.columns.index("backwards")] for row in table.rows if row) != "-"
    evidence = made["eviction-evidence-tiny-lines-512"]
    assert not isinstance(evidence, Figure)
    assert {row[1] for row in evidence.rows if row} >= {"backwards", "evidence set"}
    said = {difference.here(results) for difference in EXPERIMENT.differences}
    assert said == {f"not run at {times} × the routers' training length" for times in (2, 4)}, "of this scale"
    figure = made["fig-eviction-scale"]
    assert isinstance(figure, Figure)
    assert "backwards" in figure.svg
    recency = [
        results.metric("preserved", condition="single", regime="pre_query", mode="global", policy=p, budget=0.5)
        for p in ("backwards", "recency")
    ]
    assert recency[0].each == recency[1].each


def test_two_policies_are_paired_by_the_outcomes_of_every_question(whole: Whole) -> None:
    (pool,) = pooled(Results(whole.made))
    oracle = pool.share("single", "pre_query", "global", Arm("oracle"), 0.25)
    only_causal = pool.only_causal("single", "global", Arm("oracle"), 0.25)
    assert oracle is not None
    assert only_causal is not None
    assert oracle.value == 1.0
    assert (only_causal.value, only_causal.n) == (0.0, 2), "the oracle loses nothing that the router keeps"


def test_the_policies_of_a_part_share_one_dense_forward(reading: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, _ = loaded("tiny")
    part = Part("tiny", "single", 512, 2, 0)
    run.routed("smoke", SMOKE)
    read: list[int] = []

    def count(module: PreTrainedModel, args: tuple[Tensor, ...], kwargs: dict[str, Tensor]) -> None:
        tokens = args[0] if args else kwargs["input_ids"]
        read.append(tokens.shape[1])

    handle = model.register_forward_pre_hook(count, with_kwargs=True)
    try:
        for policy in ("h2o", "snapkv", "recency"):
            run.measure_policy("smoke", SMOKE, part, policy)
        whole = [n for n in read if n >= 480]
        assert len(whole) == 2, "one per document"
        monkeypatch.setattr(documents, "HELD_TOKENS", 512)
        forget()
        run.measure_policy("smoke", SMOKE, part, "recency")
        run.measure_policy("smoke", SMOKE, part, "random")
        assert len([n for n in read if n >= 480]) == 2 + 4, "too large to stay: read again"
    finally:
        handle.remove()


def test_a_part_in_which_nothing_is_answered_has_dense_alone(reading: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Reader, "_judge", lambda reader, question, caches, query=None: [False] * len(caches))
    part = Part("tiny", "single", 512, 2, 0)
    (dense,) = run.measure_dense("smoke", SMOKE, part).metrics
    assert (dense.what, dense.value, dense.each) == ("dense", 0.0, "00")
    assert run.measure_policy("smoke", SMOKE, part, "recency").metrics == ()


def test_both_registers_are_asked_of_one_text() -> None:
    for conditions in part_documents(Part("tiny", "register_log", 512, 3, 1)):
        log, control = conditions["register_log"], conditions[CONTROL]
        assert log.text == control.text
        assert log.asked == 0


def test_parts_are_different_documents() -> None:
    texts = [
        conditions["single"].text
        for number in range(2)
        for conditions in part_documents(Part("tiny", "single", 512, 2, number))
    ]
    assert len(set(texts)) == 4


def test_dropping_is_the_mask_operator() -> None:
    model, tokenizer = loaded("tiny")
    question = document().questions[0]
    reader = Reader(model, tokenizer, document())
    for keep in (frozenset({0}), frozenset({3, 5}), reader.everything):
        assert reader.answers(0, keep, "global") == answers_masked(Reference(model), question, keep)


def test_what_a_reading_holds_changes_no_score(reading: Path) -> None:
    (read,) = readings(Part("tiny", "single", 512, 1, 0))
    model, tokenizer = loaded("tiny")
    for asked in (None, read.document.asked):
        query = None
        if asked is not None:
            question = read.document.questions[asked]
            query = question.tokens[question.query.start : question.query.stop]
        for name in ("h2o", "snapkv"):
            alone = POLICIES[name](tokenizer).score(Context(model, read.document.tokens, read.document.blocks, query))
            for _ in range(2):
                held = run.rankings("smoke", SMOKE, read, name, asked)
                torch.testing.assert_close(held[None], alone)


def test_the_mode_text_reads_the_prompt_with_the_kept_text_in_it() -> None:
    model, tokenizer = loaded("tiny")
    question = document("multikey").questions[0]
    reader = Reader(model, tokenizer, document("multikey"))
    keep = frozenset({1, 2, 4})
    kept = [question.block_texts[i] for i in (1, 2, 4)]
    before, after = question.text.split("".join(question.block_texts))
    prompt = f"{before}[...]\n{kept[0]}{kept[1]}\n[...]\n{kept[2]}\n[...]\n{after}"
    ids = tokenizer(prompt, add_special_tokens=False)["input_ids"]
    with torch.no_grad():
        said = model(torch.tensor([[*ids, *question.answer[:-1]]])).logits[0, len(ids) - 1 :].argmax(-1)
    assert reader.answers(0, keep, "text") == (said.tolist() == list(question.answer))
    seen: list[int] = []
    embedding = model.get_input_embeddings()
    handle = embedding.register_forward_hook(lambda module, args, output: seen.extend(args[0][0].tolist()))
    try:
        Reader(model, tokenizer, document("multikey")).answers(0, keep, "text")
    finally:
        handle.remove()
    assert [*ids, *question.answer[:-1]] == seen[-(len(ids) + len(question.answer) - 1) :], "nothing else is read"


def test_keys_let_go_head_by_head_are_not_read() -> None:
    """With whole blocks gone in every head it is what ``post_prefill`` is; one head alone changes the numbers."""
    model, tokenizer = loaded("tiny")
    text = document("multikey")
    question = text.questions[0]
    tokens = question.tokens
    keep = frozenset({0, 4})
    gone = torch.zeros(2, len(text.tokens), dtype=torch.bool)
    for i, span in enumerate(text.blocks):
        gone[:, span.start : span.stop] = i not in keep
    (dense,) = prefill_kept(model, [(text.tokens, torch.arange(len(text.tokens)))], "post_prefill")
    (dropped,) = prefill_kept(model, [(text.tokens, (~gone[0]).nonzero().flatten())], "post_prefill")
    query = tokens[question.query.start :]
    with unread_keys(model, [gone, gone]):
        masked, _ = read_after(model, dense, query, rows=3)
    torch.testing.assert_close(masked, read_after(model, dropped, query, rows=3)[0], rtol=1e-4, atol=1e-4)
    one = gone.clone()
    one[1] = False
    with unread_keys(model, [one, one]):
        assert not torch.allclose(read_after(model, dense, query, rows=3)[0], masked, atol=1e-4)
    reader = Reader(model, tokenizer, text)
    assert reader.answers_without(0, [gone, gone]) == reader.answers(0, keep, "post_prefill")


@pytest.mark.parametrize("mode", ["global", "post_prefill"])
def test_keep_sets_read_together_are_judged_each_for_itself(
    monkeypatch: pytest.MonkeyPatch, mode: EvictionMode
) -> None:
    model, tokenizer = loaded("tiny")
    needed = document().questions[0].evidence
    together: list[int] = []

    def judge(reader: Reader, question: Question, caches: list[KeptCache], query: Tensor | None = None) -> list[bool]:
        together.append(len(caches))
        return reads_evidence(reader, question, caches)

    monkeypatch.setattr(Reader, "_judge", judge)
    reader = Reader(model, tokenizer, document())
    lengths = [len(span) for span in reader.document.blocks]
    noise = [i for i in sorted(reader.everything - needed) if lengths[i] == lengths[-1]][:3]
    keeps = [frozenset(noise[:2]), needed | {noise[0]}, frozenset(noise[1:]), needed | {noise[1]}]
    reader.read(0, [*keeps, *keeps], mode)
    assert together == [2, 2], "one forward for each size, nothing twice"
    assert [reader.answers(0, keep, mode) for keep in keeps] == [False, True, False, True]
    assert len(together) == 2, "what is known is not read again"


def test_a_tally_separates_what_was_kept_from_what_was_dropped() -> None:
    tally = Tally()
    for preserved, kept in ((True, True), (True, True), (None, None), (False, True), (True, False)):
        tally.add(preserved, kept)
    found = {metric.what: (metric.value, metric.n, metric.each) for metric in tally.metrics(policy="x")}
    assert found == {
        "preserved": (0.75, 4, "11.01"),
        "evidence_kept": (0.75, 4, "11.10"),
        "preserved_given_kept": (2 / 3, 3, "11.0."),
        "preserved_given_dropped": (1.0, 1, "....1"),
    }
    assert all(metric.at == {"policy": "x"} for metric in tally.metrics(policy="x"))


def test_outcomes_are_paired_on_the_same_questions() -> None:
    assert only_first("11.00", "10.01") == 1
    with pytest.raises(ValueError, match=r"expected the same questions counted in both, got 1\. and 10"):
        only_first("1.", "10")


def test_more_documents_are_the_first_ones_and_more(reading: Path) -> None:
    made = dict(run_missing(curve.EXPERIMENT.jobs("smoke"), reading / "results", "smoke"))
    assert list(made) == [f"eviction_curve/tiny-{regime}" for regime in ("pre_query", "query_aware")]
    for result in made.values():
        assert len(result.metrics) == 2 * len(TASKS)
        assert {metric.n for metric in result.metrics} == {2}
    (report,) = curve.EXPERIMENT.reports
    table = report.make(Results(made))
    assert isinstance(table, Table)
    assert [row[2] for row in table.rows if row] == ["1", "2"] * 2
    examples = curve.Examples([torch.tensor([i]) for i in range(8)], {"causal": [torch.tensor([-i]) for i in range(8)]})
    some = curve.joined(curve.beginning(task, 1) for task in curve.by_task(examples))
    assert [int(row) for row in some.features] == [0, 2, 4, 6]
    assert [int(row) for row in some.evidence] == [0, -2, -4, -6]
