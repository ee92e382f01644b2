"""A document in, a small cache out that answers: what is kept, what it costs, and every refusal."""

import copy
import json
import math
import resource
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest
import torch
from rich.console import Console
from safetensors.torch import save
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

import keepset
from keepset.files import sha256
from keepset.interventions import Ask, Fast, Probe, TeacherForced
from keepset.models.endings import spoken, turn_ends
from keepset.policies import BOTH, H2O, Context, KVzip, Oracle, Recency, SnapKV
from keepset.pruning import Budget, PrunedContext, Pruner
from keepset.pruning.cache import EvictionMode
from keepset.pruning.report import GAP, check_eviction
from keepset.text.example import text_example
from keepset.text.prompt import document_tokens

Loaded = tuple[PreTrainedModel, PreTrainedTokenizerBase]
QUESTION = "What is the code for NARO3?"
NAMES = ("0.keys", "1.keys", "0.values", "1.values")
"""In the cache of the tiny model."""
MODES: tuple[EvictionMode, ...] = get_args(EvictionMode)


class Longest:
    """A policy of one's own."""

    name = "longest"
    title = "longest blocks"
    regimes = BOTH

    def score(self, context: Context) -> Tensor:
        return torch.tensor([float(len(span)) for span in context.blocks])


def test_a_policy_by_name_is_the_policy(loaded: Loaded, document: str) -> None:
    for name, build in keepset.POLICIES.items():
        policy = build(loaded[1])
        question = None if "pre_query" in policy.regimes else QUESTION
        by_name = Pruner(*loaded, name, blocks="line").prune(document, 0.25, question)
        assert by_name.record.policy == name
        assert by_name.kept == Pruner(*loaded, policy, blocks="line").prune(document, 0.25, question).kept
    with pytest.raises(ValueError, match=r"policy: expected a router, the folder of one, .*h2o, .*, got none"):
        Pruner(*loaded)
    with pytest.raises(ValueError, match=r"policy: expected one of h2o, .*, or the folder of a router, got 'h3o'"):
        Pruner(*loaded, "h3o")


def test_an_answer_is_given_when_each_of_its_tokens_is_the_most_likely(loaded: Loaded, document: str) -> None:
    model, tokenizer = loaded
    for policy, budget in ((H2O(), 1.0), (Recency(), 0.25)):
        pruned = Pruner(*loaded, policy, blocks="line").prune(document, budget)
        example = text_example(tokenizer, document, QUESTION, "4821", "line")
        keep = frozenset(pruned.kept)
        ((written,),) = Fast(model).generate([Ask(example, keep, ((1,),))], 1, frozenset())
        for answer in ("4821", tokenizer.decode(list(written))):
            asked = text_example(tokenizer, document, QUESTION, answer, "line")
            (score,) = Probe([asked], Fast(model), TeacherForced()).score([(0, keep)])
            assert pruned.gives(QUESTION, answer) == score.correct
        assert pruned.gives(QUESTION, tokenizer.decode(list(written)))


def test_kept_blocks_answer_as_under_the_mask(loaded: Loaded, document: str) -> None:
    pruned = Pruner(*loaded, Oracle(frozenset({3, 7})), blocks="line").prune(document, 3)
    assert pruned.kept == (0, 3, 7)
    example = text_example(loaded[1], document, QUESTION, "1", "line")
    ((expected,),) = Fast(loaded[0]).generate([Ask(example, frozenset(pruned.kept), ((1,),))], 8, turn_ends(*loaded))
    assert pruned.ask(QUESTION, 8) == spoken(loaded[1], expected)
    assert pruned.ask(QUESTION, 8) == spoken(loaded[1], expected)  # the cache has not grown


@pytest.mark.parametrize("mode", MODES)
def test_a_report_says_what_was_kept_and_what_it_takes(loaded: Loaded, document: str, mode: EvictionMode) -> None:
    pruned = Pruner(*loaded, H2O(), mode=mode, blocks=16, keep_recent=1).prune(document, 0.25)
    report = pruned.report()
    record = report.record
    assert (record.mode, record.regime, record.policy) == (mode, "pre_query", "h2o")
    assert len(pruned.kept) == math.ceil(len(record.blocks) / 4)
    assert [block.why for block in record.blocks if block.why == "protected"] == ["protected"] * 2
    assert {0, len(record.blocks) - 1} < set(pruned.kept)
    outside = record.n_tokens - sum(block.tokens for block in record.blocks)
    if mode == "text":
        assert report.tokens_after == record.text_tokens == len(document_tokens(loaded[1], pruned.text))
    else:
        assert report.tokens_after == outside + sum(block.tokens for block in record.blocks if block.kept)
    assert report.bytes_after / report.bytes_before == report.tokens_after / report.tokens_before
    assert report.bytes_before == 2 * 2 * 2 * 16 * 4 * record.n_tokens  # layers, K and V, heads, width, float32
    assert report.seconds > 0
    if mode == "post_prefill":
        assert report.estimated_seconds_saved == pytest.approx(-record.score_seconds)
    console = Console(record=True, width=100)
    report.show(console)
    shown = console.export_text()
    assert "protected" in shown
    assert f"kept {len(pruned.kept)} of {len(record.blocks)} blocks (25 % of blocks) by h2o" in shown


def test_text_has_the_kept_blocks_and_a_mark_where_others_were(loaded: Loaded) -> None:
    document = "One.\nTwo.\nThree.\nFour.\nFive.\n"
    text = Pruner(*loaded, Oracle(frozenset({3})), blocks="line").prune(document, 2).text
    assert text == f"One.\n{GAP}Four.\n{GAP}".strip()
    assert Pruner(*loaded, Recency(), blocks="line").prune(document, 1.0).text == document.strip()


def test_the_mode_text_reads_what_any_other_engine_is_sent(loaded: Loaded, document: str, tmp_path: Path) -> None:
    model, tokenizer = loaded
    pruned = Pruner(model, tokenizer, Oracle(frozenset({3, 4, 9})), "text", "line").prune(document, 4)
    messages = pruned.messages(QUESTION)
    assert messages == [{"role": "user", "content": f"{pruned.text}\n\n{QUESTION}"}]
    assert messages == Pruner(model, tokenizer, Oracle(frozenset({3, 4, 9})), "global", "line").prune(
        document, 4
    ).messages(QUESTION), "whatever the mode"
    ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True)["input_ids"]
    written = model.generate(torch.tensor([ids]), max_new_tokens=8, do_sample=False)[0, len(ids) :]  # type: ignore[operator]
    assert pruned.ask(QUESTION, 8) == spoken(tokenizer, tuple(written.tolist()))
    assert pruned.gives(QUESTION, tokenizer.decode(written[:1]))
    assert pruned.cache.positions.tolist() == list(range(pruned.cache.n_tokens)), "renumbered"
    pruned.save(tmp_path / "doc.pruned")
    found = PrunedContext.load(tmp_path / "doc.pruned", model, tokenizer)
    assert found.record == pruned.record
    assert found.ask(QUESTION, 8) == pruned.ask(QUESTION, 8)
    with pytest.raises(ValueError, match="question: expected some text"):
        pruned.messages(" ")


def test_protection_can_be_turned_off(loaded: Loaded, document: str) -> None:
    assert Pruner(*loaded, Recency(), blocks="line", keep_first=False).prune(document, 2).kept == (18, 19)
    assert Pruner(*loaded, Recency(), blocks="line").prune(document, 2).kept == (0, 19)
    assert Pruner(*loaded, Oracle(frozenset({4})), blocks="line", keep_recent=2).prune(document, 4).kept == (
        0,
        4,
        18,
        19,
    )


def test_a_share_of_tokens(loaded: Loaded, document: str) -> None:
    pruned = Pruner(*loaded, Longest(), blocks="line").prune(document, Budget.share_of_tokens(0.3))
    blocks = pruned.record.blocks
    assert sum(b.tokens for b in blocks if b.kept) <= 0.3 * sum(b.tokens for b in blocks)


def test_a_policy_sees_the_question_only_when_it_is_passed(loaded: Loaded, document: str) -> None:
    pruner = Pruner(*loaded, SnapKV(), blocks=16)
    before, aware = pruner.prune(document, 0.25), pruner.prune(document, 0.25, question=QUESTION)
    assert (before.record.regime, aware.record.regime) == ("pre_query", "query_aware")
    assert aware.record.question == QUESTION
    assert [b.score for b in before.record.blocks] != [b.score for b in aware.record.blocks]
    with pytest.raises(ValueError, match="kvzip: expected a context of regime pre_query, got one with a question"):
        Pruner(*loaded, KVzip(loaded[1]), blocks=16).prune(document, 0.25, question=QUESTION)


def test_a_policy_by_its_name_is_that_policy(loaded: Loaded, document: str) -> None:
    named, made = (Pruner(*loaded, policy, blocks=16).prune(document, 0.25) for policy in ("kvzip", KVzip(loaded[1])))
    assert named.record.policy == "kvzip"
    assert [b.score for b in named.record.blocks] == [b.score for b in made.record.blocks]
    assert named.kept == made.kept


@pytest.mark.parametrize("mode", MODES)
def test_a_batch_equals_its_documents_one_by_one(loaded: Loaded, document: str, mode: EvictionMode) -> None:
    documents = [document, document[:200], document[150:], "The code."]
    pruner = Pruner(*loaded, H2O(), mode=mode, blocks=16)
    batch = pruner.prune_batch(documents, 0.5)
    for pruned, each in zip(batch, documents, strict=True):
        single = pruner.prune(each, 0.5)
        assert pruned.record.document == each
        assert pruned.kept == single.kept
        asked = torch.tensor([3, 4, 5])
        torch.testing.assert_close(pruned.logits(asked), single.logits(asked), rtol=1e-4, atol=1e-4)
        assert pruned.ask(QUESTION, 4) == single.ask(QUESTION, 4)
    with pytest.raises(ValueError, match="questions: expected one per document"):
        pruner.prune_batch(documents, 0.5, ["one"])


@pytest.mark.parametrize("mode", MODES)
def test_several_budgets_cost_one_scoring_and_are_what_each_alone_is(
    loaded: Loaded, document: str, mode: EvictionMode
) -> None:
    class Counting(Longest):
        calls = 0

        def score(self, context: Context) -> Tensor:
            self.calls += 1
            return super().score(context)

    policy = Counting()
    pruner = Pruner(*loaded, policy, mode=mode, blocks="line")
    budgets = (0.1, 0.5, Budget.share_of_tokens(0.3), 4)
    together = pruner.prune_at(document, budgets)
    assert policy.calls == 1
    for pruned, budget in zip(together, budgets, strict=True):
        alone = pruner.prune(document, budget)
        assert (pruned.kept, pruned.record.budget) == (alone.kept, alone.record.budget)
        asked = torch.tensor([3, 4, 5])
        assert torch.equal(pruned.logits(asked), alone.logits(asked))
        assert pruned.report().tokens_after == alone.report().tokens_after
    with pytest.raises(ValueError, match="budgets: expected at least one, got none"):
        pruner.prune_at(document, [])
    with pytest.raises(ValueError, match="budget: expected at most the document's 20 blocks, got 21"):
        pruner.prune_at(document, [0.1, 21])
    assert policy.calls == 1 + len(budgets), "refused before the policy works"


def test_a_document_shorter_than_a_block_is_kept_whole_and_says_so(loaded: Loaded) -> None:
    for budget in (0.1, 1, Budget.share_of_tokens(0.1)):
        pruned = Pruner(*loaded, H2O()).prune("The code is 4821.", budget)
        assert pruned.kept == (0,)
        assert "nothing was dropped: the document has 1 block(s)" in pruned.report().lines()[-1]


def test_without_a_chat_template_an_answer_ends_with_its_line(loaded: Loaded, document: str) -> None:
    tokenizer = copy.deepcopy(loaded[1])
    tokenizer.chat_template = None
    pruned = Pruner(loaded[0], tokenizer, H2O(), blocks=16).prune(document, 0.5)
    assert "\n" not in pruned.ask(QUESTION, 16)


def test_bad_input_is_refused_before_the_policy_works(loaded: Loaded, document: str) -> None:
    class Never:
        name = "never"
        title = "never"
        regimes = BOTH

        def score(self, context: Context) -> Tensor:
            raise AssertionError

    pruner = Pruner(*loaded, Never(), blocks=16)
    with pytest.raises(ValueError, match="document: expected some text"):
        pruner.prune(" ", 0.1)
    with pytest.raises(ValueError, match="question: expected some text"):
        pruner.prune(document, 0.1, question="")
    for budget in (0.0, 1.5, 0, 1_000):
        with pytest.raises(ValueError, match="budget: expected"):
            pruner.prune(document, budget)
    with pytest.raises(ValueError, match="positions: expected at most 2048"):
        pruner.prune(document * 10, 0.1)
    with pytest.raises(ValueError, match="mode: expected one of global, post_prefill, text, got 'local'"):
        Pruner(*loaded, Never(), mode="local")  # type: ignore[arg-type]
    training = copy.deepcopy(loaded[0]).train()
    with pytest.raises(ValueError, match="expected evaluation mode"):
        Pruner(training, loaded[1], Never())


def test_a_question_after_the_positions_ran_out_is_refused(loaded: Loaded, document: str) -> None:
    pruned = Pruner(*loaded, Recency(), blocks=16).prune(document, 0.1)
    with pytest.raises(ValueError, match="positions: expected at most 2048"):
        pruned.ask(QUESTION, 2_048)
    with pytest.raises(ValueError, match="question: expected some text"):
        pruned.ask(" ")


def test_an_eviction_that_did_not_happen_is_noticed(loaded: Loaded, document: str) -> None:
    pruned = Pruner(*loaded, Recency(), blocks=16).prune(document, 0.25)
    dense = Pruner(*loaded, Recency(), blocks=16).prune(document, 1.0)
    with pytest.raises(ValueError, match=r"eviction: expected .* tokens in every layer"):
        check_eviction(pruned.record, dense.cache)
    view = copy.copy(pruned.cache.layers)
    view.keys = [torch.cat([part, part], dim=2)[:, :, : part.shape[2]] for part in view.keys]
    cache = copy.copy(pruned.cache)
    object.__setattr__(cache, "layers", view)
    with pytest.raises(ValueError, match=r"eviction: expected .* bytes .* held in memory"):
        check_eviction(pruned.record, cache)
    over = pruned.record.model_copy(update={"budget": Budget.blocks(1)})
    with pytest.raises(ValueError, match="eviction: expected at most 1 of the budget"):
        check_eviction(over, pruned.cache)


@pytest.fixture
def saved(loaded: Loaded, document: str, tmp_path: Path) -> tuple[PrunedContext, Path]:
    pruned = Pruner(*loaded, H2O(), blocks=16).prune(document, 0.25)
    pruned.save(tmp_path / "doc.pruned", model_name="tiny")
    return pruned, tmp_path / "doc.pruned"


def test_saved_and_loaded_it_answers_the_same(loaded: Loaded, saved: tuple[PrunedContext, Path]) -> None:
    pruned, folder = saved
    found = PrunedContext.load(folder, *loaded)
    assert found.record == pruned.record
    assert found.text == pruned.text
    assert torch.equal(found.logits(torch.tensor([3, 4])), pruned.logits(torch.tensor([3, 4])))
    assert found.report().bytes_after == pruned.report().bytes_after
    with pytest.raises(ValueError, match=r"got one with a pruned document; .*--force \(in Python: force=True\)"):
        found.save(folder)
    found.save(folder, force=True)
    assert sorted(path.name for path in folder.iterdir()) == ["cache.safetensors", "pruned.json"]
    assert sorted(path.name for path in folder.parent.iterdir()) == ["doc.pruned"]


def test_another_model_is_refused(loaded: Loaded, saved: tuple[PrunedContext, Path]) -> None:
    other = copy.deepcopy(loaded[0])
    with torch.no_grad():
        other.model.norm.weight += 1
    with pytest.raises(ValueError, match=r"expected the model it was pruned for \(tiny\), got another one"):
        PrunedContext.load(saved[1], other, loaded[1])


def test_damage_is_noticed(loaded: Loaded, saved: tuple[PrunedContext, Path]) -> None:
    _, folder = saved
    cache, record = folder / "cache.safetensors", folder / "pruned.json"
    whole, text = cache.read_bytes(), record.read_text()
    for broken in (whole[:-100], whole[:-1] + bytes([whole[-1] ^ 1]), b""):
        cache.write_bytes(broken)
        with pytest.raises(ValueError, match=r"is damaged: expected cache\.safetensors with sha256"):
            PrunedContext.load(folder, *loaded)
    cache.unlink()
    with pytest.raises(ValueError, match="got no file"):
        PrunedContext.load(folder, *loaded)
    cache.write_bytes(whole)
    for broken_text in (text[:-50], "{}", text.replace('"policy"', '"polity"')):
        record.write_text(broken_text)
        with pytest.raises(ValueError, match=r"pruned\.json: expected a record that 'save' wrote"):
            PrunedContext.load(folder, *loaded)
    wrong = json.loads(text)
    wrong["record"]["blocks"][0]["why"] = "dropped"
    record.write_text(json.dumps(wrong))
    with pytest.raises(ValueError, match=r"tensors of shape \(1, 2, \d+, 16\), got"):
        PrunedContext.load(folder, *loaded)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        (
            "n_tokens",
            10**15,
            r"expected at most the [\d,]+ tokens of its document in n_tokens, got 1,000,000,000,000,000",
        ),
        ("n_tokens", -1, r"record\.n_tokens: Input should be greater than 0"),
        ("n_tokens", 10**30, "expected"),
        ("n_tokens", 1, "expected blocks numbered in order"),
        ("blocks", [], "expected at least one block, got none"),
        ("document", "", "expected blocks numbered in order"),
        ("budget", {"unit": "blocks", "amount": float("nan")}, r"record\.budget\.amount"),
        ("budget", {"unit": "share of blocks", "amount": -3}, r"record\.budget\.amount"),
    ],
)
def test_a_record_that_cannot_be_is_refused_before_memory_is_asked_for(
    loaded: Loaded, saved: tuple[PrunedContext, Path], field: str, value: object, said: str
) -> None:
    path = saved[1] / "pruned.json"
    data = json.loads(path.read_text())
    data["record"][field] = value
    path.write_text(json.dumps(data))
    with pytest.raises(ValueError, match=said) as caught:
        PrunedContext.load(saved[1], *loaded)
    assert "\n" not in str(caught.value)


def test_a_record_nested_too_deeply_is_refused(loaded: Loaded, saved: tuple[PrunedContext, Path]) -> None:
    (saved[1] / "pruned.json").write_text("[" * 100_000)
    with pytest.raises(ValueError, match=r"expected a record that 'save' wrote, got JSON nested too deeply"):
        PrunedContext.load(saved[1], *loaded)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda whole: b"\xff" * 64, "cannot be read"),
        (lambda whole: (10**12).to_bytes(8, "little") + whole[8:], "cannot be read"),
        (lambda whole: save({"0.keys": torch.zeros(3)}), "cannot be read"),
        (lambda whole: save({name: torch.zeros(2, 2) for name in NAMES}), r"tensors of shape .* got \(2, 2\)"),
        (lambda whole: save({name: torch.zeros(1, 3, 40, 16) for name in NAMES}), r"tensors of shape .* got \(1, 3"),
    ],
)
def test_a_cache_that_vouches_for_itself_and_is_broken_is_refused(
    loaded: Loaded, saved: tuple[PrunedContext, Path], make: Callable[[bytes], bytes], said: str
) -> None:
    cache, record = saved[1] / "cache.safetensors", saved[1] / "pruned.json"
    cache.write_bytes(make(cache.read_bytes()))
    data = json.loads(record.read_text())
    record.write_text(json.dumps({**data, "cache_sha256": sha256(cache)}))
    with pytest.raises(ValueError, match=said):
        PrunedContext.load(saved[1], *loaded)


def test_a_full_disk_is_one_line_and_leaves_nothing(loaded: Loaded, document: str, tmp_path: Path) -> None:
    pruned = Pruner(*loaded, H2O(), blocks=16).prune(document, 0.5)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))  # no file may grow beyond: a disk that runs full
    try:
        with pytest.raises(OSError, match=r"cache\.safetensors cannot be written, and nothing was kept") as caught:
            pruned.save(tmp_path / "doc.pruned")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda p: p.prune(None, 0.5), "document: expected some text, got NoneType"),
        (lambda p: p.prune(b"text", 0.5), "document: expected some text, got bytes"),
        (lambda p: p.prune("The code.", None), "budget: expected a share"),
        (lambda p: p.prune("The code.", 0.5, 7), "question: expected some text, got int"),
        (lambda p: p.prune("bad \udcff", 0.5), "document: expected text in UTF-8, got bytes that are not"),
        (lambda p: p.prune_batch("The code.", 0.5), "documents: expected a list of texts, got str"),
        (lambda p: p.prune_batch([None], 0.5), "document: expected some text, got NoneType"),
        (lambda p: p.prune("The code.", 1.0).ask(None), "question: expected some text, got NoneType"),
        (lambda p: p.prune("The code.", 1.0).ask("Which?", "4"), "max_new_tokens: expected at least 1, got '4'"),
        (lambda p: Pruner(None, p.tokenizer, "h2o"), "model: expected a transformers model"),
        (lambda p: Pruner(p.model, None, "h2o"), "tokenizer: expected the one load_model gives"),
        (lambda p: Pruner(p.model, p.tokenizer, "h2o", blocks=2.5).prune("x", 1.0), "blocks: expected 'sentence'"),
        (lambda p: keepset.explain(p.model, p.tokenizer, None, "Which?"), "context: expected some text, got NoneType"),
        (lambda p: keepset.explain(p.model, p.tokenizer, "A.", None), "question: expected some text, got NoneType"),
        (lambda p: keepset.explain(p.model, p.tokenizer, "A.", "Q?", b"\xff"), "answer: expected some text, got bytes"),
        (lambda p: keepset.explain(p.model, p.tokenizer, "A.", "Q?", "\udcff"), "answer: expected text in UTF-8"),
        (lambda p: keepset.explain(None, p.tokenizer, "A.", "Q?"), "model: expected a transformers model"),
    ],
)
def test_wrong_types_are_named(loaded: Loaded, call: Callable[[Pruner], object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        call(Pruner(*loaded, "h2o"))


def test_foreign_folders_are_neither_read_nor_overwritten(
    loaded: Loaded, saved: tuple[PrunedContext, Path], tmp_path: Path
) -> None:
    pruned, _ = saved
    foreign = tmp_path / "mine"
    foreign.mkdir()
    (foreign / "thesis.txt").write_text("years of work")
    with pytest.raises(ValueError, match=r"mine: expected a pruned document .* got no pruned\.json"):
        PrunedContext.load(foreign, *loaded)
    with pytest.raises(ValueError, match=r"mine: expected a new folder .* got thesis\.txt"):
        pruned.save(foreign)
    with pytest.raises(ValueError, match="expected a new folder, got a file"):
        pruned.save(foreign / "thesis.txt")
    assert (foreign / "thesis.txt").read_text() == "years of work"
    with pytest.raises(ValueError, match="expected a pruned document"):
        PrunedContext.load(tmp_path / "nowhere", *loaded)


def test_a_failed_save_leaves_the_old_one(saved: tuple[PrunedContext, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    pruned, folder = saved
    before = (folder / "pruned.json").read_text()

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("keepset.pruning.saved.write_json", fail)
    with pytest.raises(OSError, match="disk full"):
        pruned.save(folder, force=True)
    assert (folder / "pruned.json").read_text() == before
    assert [path.name for path in folder.parent.iterdir()] == ["doc.pruned"]
