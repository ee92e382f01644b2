"""A document in, a small cache out that answers: what is kept, in every mode, and every refusal."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest
import torch
from torch import Tensor

import keepset
from keepset.interventions import Ask, Fast, Probe, TeacherForced
from keepset.models.endings import spoken, turn_ends
from keepset.policies import BOTH, H2O, Context, KVzip, Oracle, Recency, SnapKV
from keepset.pruning import Budget, PrunedContext, Pruner
from keepset.pruning.cache import EvictionMode
from keepset.readouts import shared_layers
from keepset.text.example import text_example
from tests.pruning.conftest import Loaded

QUESTION = "What is the code for NARO3?"
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
        made = Pruner(*loaded, policy, blocks="line").prune(document, 0.25, question)
        assert [block.score for block in by_name.record.blocks] == [block.score for block in made.record.blocks]
        assert by_name.kept == made.kept
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


def test_questions_side_by_side_do_not_see_each_other(loaded: Loaded, document: str) -> None:
    questions = (QUESTION, "Who?", "What is the code for the last one of all of them, if there is one?")
    for policy, budget in ((H2O(), 1.0), (Recency(), 0.25)):
        pruned = Pruner(*loaded, policy, blocks="line").prune(document, budget)
        said = [pruned.ask(question, 1) for question in questions]
        asked = [(question, answer) for question in questions for answer in (*filter(str.strip, said), "not this one")]
        alone = [pruned.gives(*pair) for pair in asked]
        assert pruned.gives_each(asked) == alone
        assert any(alone)
        assert not all(alone)
    assert pruned.gives_each([]) == []


def test_a_document_that_is_read_whole_is_read_once_with_the_readouts(loaded: Loaded, document: str) -> None:
    model = loaded[0]
    forwards: list[int] = []
    hook = model.register_forward_hook(lambda module, inputs, output: forwards.append(inputs[0].shape[1]))
    pruner = Pruner(*loaded, H2O(), blocks="line")
    whole, half = (pruner.prune(document, budget) for budget in (1.0, 0.5))
    forwards.clear()
    with shared_layers() as sharing:
        shared = [pruner.prune(document, budget) for budget in (1.0, 0.5)]
    hook.remove()
    assert forwards == [whole.record.n_tokens, len(half.cache.positions)]
    for found, alone in zip(shared, (whole, half), strict=True):
        assert (found.kept, found.ask(QUESTION, 8)) == (alone.kept, alone.ask(QUESTION, 8))
        for ours, theirs in zip(found.cache.tensors, alone.cache.tensors, strict=True):
            torch.testing.assert_close(ours, theirs)
    assert sharing.context is not None
    for record in (shared[0].record, shared[1].record):
        assert record.score_seconds >= sharing.context.seconds, "what was shared counts as its own"


def test_kept_blocks_answer_as_under_the_mask(loaded: Loaded, document: str) -> None:
    pruned = Pruner(*loaded, Oracle(frozenset({3, 7})), blocks="line").prune(document, 3)
    assert pruned.kept == (0, 3, 7)
    example = text_example(loaded[1], document, QUESTION, "1", "line")
    ((expected,),) = Fast(loaded[0]).generate([Ask(example, frozenset(pruned.kept), ((1,),))], 8, turn_ends(*loaded))
    assert pruned.ask(QUESTION, 8) == spoken(loaded[1], expected)
    assert pruned.ask(QUESTION, 8) == spoken(loaded[1], expected)  # the cache has not grown


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
