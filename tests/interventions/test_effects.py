"""Effects from both executors, in every effort, against keep sets scored one by one; and every bad input."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from transformers import BloomConfig, BloomForCausalLM, LlamaConfig, LlamaForCausalLM, PreTrainedModel

from keepset.blocks import Example, KeepSet, Span
from keepset.interventions import (
    Ask,
    Confident,
    Effects,
    Effort,
    Executor,
    Fast,
    ForcedChoice,
    GoldToken,
    Mask,
    Overwrite,
    Probe,
    Reference,
    Score,
    Scorer,
    TeacherForced,
    filler,
)
from keepset.paper.testbed.tasks import Vocabulary, sample_condition

SHAPE = {
    "vocab_size": 40,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "initializer_range": 0.4,
}


@pytest.fixture(scope="module")
def model() -> PreTrainedModel:
    with torch.random.fork_rng():
        torch.manual_seed(11)
        return LlamaForCausalLM(LlamaConfig(**SHAPE)).eval()


@pytest.fixture(scope="module")
def fast(model: PreTrainedModel) -> Fast:
    return Fast(model)


def context(seed: int, spans: tuple[tuple[int, int], ...], n_tokens: int, answer: tuple[int, ...]) -> Example:
    tokens = torch.randint(40, (n_tokens,), generator=torch.Generator().manual_seed(seed))
    blocks = tuple(Span(*span) for span in spans)
    return Example(tokens, blocks, Span(blocks[-1].stop, n_tokens), answer)


@pytest.fixture(scope="module")
def examples(model: PreTrainedModel) -> list[Example]:
    """Five and three blocks; the answer is what the model says on the full context, except in the last example."""
    found = []
    for seed in range(6):
        spans = ((1, 4), (4, 6), (7, 10), (10, 14), (14, 16)) if seed % 2 else ((0, 4), (4, 8), (8, 12))
        e = context(seed, spans, spans[-1][1] + 3, (0,))
        with torch.no_grad():
            said = int(model(e.tokens[None]).logits[0, -1].argmax())
        found.append(Example(e.tokens, e.blocks, e.query, (said if seed < 5 else (said + 1) % 40,)))
    return found


def one_by_one(reference: Reference, e: Example, keep: KeepSet) -> Score:
    ((reading,),) = reference.read([Ask(e, keep, (e.answer,))])
    return Score(reading.log_probs[0][0], reading.top[0][0] == e.answer[0])


@pytest.mark.parametrize("executor", [Reference, Fast])
def test_exact_effects_are_what_they_say(
    model: PreTrainedModel, examples: list[Example], executor: type[Executor]
) -> None:
    effects, reference = Effects(examples, executor(model, max_tokens=40)), Reference(model)
    assert effects.clean_correct.tolist() == [True] * 5 + [False]
    assert torch.equal(effects.hidden.measured, effects.exists)
    flips = 0
    for i in (0, 1, 5):
        e = examples[i]
        everything = frozenset(range(len(e.blocks)))
        clean = one_by_one(reference, e, everything)
        assert effects.clean_log_prob[i] == pytest.approx(clean.log_prob, abs=1e-4)
        for b in everything:
            hidden, alone = one_by_one(reference, e, everything - {b}), one_by_one(reference, e, frozenset({b}))
            assert effects.drop[i, b] == pytest.approx(clean.log_prob - hidden.log_prob, abs=1e-4)
            assert effects.flip[i, b] == (clean.correct and not hidden.correct)
            assert effects.sufficient[i, b] == alone.correct
            flips += int(effects.flip[i, b])
    assert flips > 0
    assert not effects.flip[5].any()  # nothing to flip where the clean answer is wrong
    assert effects.drop[5].abs().max() > 0.1  # and still support for the gold answer to measure
    assert not effects.drop[0, 3:].any()  # padding


def test_nothing_runs_before_it_is_asked_for(fast: Fast, examples: list[Example]) -> None:
    before = fast.cost.copy()
    effects = Effects(examples, fast)
    assert fast.cost.since(before).forwards == 0
    _ = effects.clean_correct
    assert fast.cost.since(before).views == len(examples)
    _ = effects.sufficient
    assert fast.cost.since(before).views == len(examples) + 24
    _ = effects.drop, effects.flip, effects.sufficient, effects.clean_log_prob
    # Clean contexts are not run again: leave-one-out of 24 blocks.
    assert fast.cost.since(before).views == len(examples) + 48


@pytest.mark.parametrize("operator", [Mask(), Overwrite(filler(0))])
def test_group_testing_agrees_where_it_measured(
    model: PreTrainedModel, examples: list[Example], operator: Mask
) -> None:
    exact = Effects(examples, Fast(model, operator))
    grouped = Effects(examples, Fast(model, operator), effort="grouped", threshold=0.25)
    measured = grouped.hidden.measured
    torch.testing.assert_close(grouped.drop[measured], exact.drop[measured], atol=1e-4, rtol=0)
    assert torch.equal(grouped.sufficient, exact.sufficient)


class NeedsOne(GoldToken):
    """The real executor at work, and a rule for an answer: block 1 decides, except in example 0, where nothing does."""

    def score(self, executor: Executor, pairs: list[tuple[Example, KeepSet]]) -> list[Score]:  # type: ignore[override]
        super().score(executor, pairs)
        held = [1 in keep or len(e.blocks) == 3 for e, keep in pairs]
        return [Score(0.0, True) if answer else Score(-3.0, False) for answer in held]


@pytest.mark.parametrize("executor", [Reference, Fast])
def test_certified_effects_fall_back_to_groups(
    model: PreTrainedModel, examples: list[Example], executor: type[Executor]
) -> None:
    effects = Effects(examples, executor(model), NeedsOne(), effort="certified")
    assert effects.certified.tolist() == [False, True] * 3
    assert effects.flip.nonzero().tolist() == [[1, 1], [3, 1], [5, 1]]
    assert effects.drop[1].tolist() == [0, 3, 0, 0, 0]
    assert effects.sufficient[1].tolist() == [False, True, False, False, False]
    assert effects.sufficient[0].tolist() == [True, True, True, False, False]
    # Certified: only the set was measured. Fallen back: singly only what a group did not clear, each alone.
    assert effects.hidden.measured.sum(1).tolist() == [3, 1, 3, 1, 3, 1]
    assert effects.alone.measured.sum(1).tolist() == [3, 1, 3, 1, 3, 1]


def test_a_synthetic_batch_shares_its_forwards(model: PreTrainedModel) -> None:
    vocabulary = Vocabulary(families=4, members=4, values=8)
    batch = sample_condition("unique", seed=0, batch=6, n_blocks=5, width=4, vocabulary=vocabulary)
    fast, reference = Fast(model), Reference(model)
    effects, expected = Effects(batch, fast), Effects([batch.example(i) for i in range(6)], reference)
    torch.testing.assert_close(effects.drop, expected.drop, atol=1e-4, rtol=0)
    torch.testing.assert_close(effects.alone.log_prob, expected.alone.log_prob, atol=1e-4, rtol=0)
    assert fast.cost.forwards <= 8  # clean, a few lengths of branches, singletons: not one per example


def test_a_probe_scores_each_keep_set_once(fast: Fast, examples: list[Example]) -> None:
    probe = Probe(examples, fast, GoldToken())
    before = fast.cost.copy()
    first = probe.score([(0, frozenset({1})), (1, frozenset({1})), (0, frozenset({1}))])
    assert first[0] == first[2]
    assert probe.score([(1, frozenset({1}))]) == first[1:2]
    assert fast.cost.since(before).views == 2


# Scorers.


def test_confident_asks_for_even_odds(fast: Fast, examples: list[Example]) -> None:
    pairs = [(example, frozenset(range(len(example.blocks)))) for example in examples]
    for sure, likely in zip(Confident().score(fast, pairs), GoldToken().score(fast, pairs), strict=True):
        assert sure.log_prob == likely.log_prob
        assert sure.correct == (sure.log_prob >= math.log(0.5))
        assert likely.correct or not sure.correct


@pytest.mark.parametrize("executor", [Reference, Fast])
def test_scorers_agree_with_a_plain_forward(model: PreTrainedModel, executor: type[Executor]) -> None:
    e = context(3, ((0, 3), (3, 7)), 10, (4, 9, 2))
    full = torch.cat([e.tokens, torch.tensor(e.answer)])
    with torch.no_grad():
        logits = model(full[None]).logits[0, 9:12]
    pair = [(e, frozenset({0, 1}))]
    runner = executor(model)
    for temperature in (1.0, 2.0):
        expected = (logits / temperature).log_softmax(-1)[torch.arange(3), torch.tensor(e.answer)].sum()
        (score,) = TeacherForced(temperature).score(runner, pair)
        assert score.log_prob == pytest.approx(float(expected), abs=1e-4)
        assert score.correct == (logits.argmax(-1).tolist() == list(e.answer))


def test_forced_choice_picks_the_likeliest_candidate(fast: Fast) -> None:
    e = context(3, ((0, 3), (3, 7)), 10, (4, 9))
    candidates = ((4, 9), (7,), (4, 2), (8, 8, 8))
    pairs = [(Example(e.tokens, e.blocks, e.query, c), frozenset({1})) for c in candidates]
    scores = ForcedChoice(lambda example: candidates).score(fast, pairs)
    sums = [score.log_prob for score in scores]
    assert [score.correct for score in scores] == [s == max(sums) for s in sums]
    alone = TeacherForced().score(fast, pairs)
    assert sums == pytest.approx([score.log_prob for score in alone], abs=1e-4)


def test_alternatives_are_averaged(model: PreTrainedModel) -> None:
    e = context(3, ((0, 3), (3, 7)), 10, (4,))
    pair = [(e, frozenset({0}))]
    single = [GoldToken().score(Fast(model, Overwrite(filler(t))), pair)[0].log_prob for t in (1, 2)]
    both = Overwrite(lambda x: [*filler(1)(x), *filler(2)(x)])
    assert GoldToken().score(Fast(model, both), pair)[0].log_prob == pytest.approx(sum(single) / 2, abs=1e-5)


# Bad input, before any work is spent.

GOOD = context(3, ((0, 3), (3, 7)), 10, (4,))
LONG = context(3, ((0, 3), (3, 7)), 10, (4, 9))
TOO_LONG = context(3, ((0, 3), (3, 7)), 65, (4,))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: context(0, ((0, 3), (2, 7)), 10, (4,)), r"block 1: expected to start at 3 or later"),
        (lambda: context(0, ((0, 3), (3, 12)), 10, (4,)), r"query: expected a non-empty span"),
        (lambda: context(0, ((0, 3), (3, 7)), 10, ()), "answer: expected at least one token, got none"),
    ],
)
def test_impossible_examples(build: Callable[[], Example], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize(
    ("example", "scorer", "message"),
    [
        (LONG, GoldToken(), "example 1: answer: expected one token, got 2; score longer answers with TeacherForced"),
        (GOOD, ForcedChoice(lambda e: [(4,), (4, 5)]), r"none to be a prefix of another, got \(4,\) and \(4, 5\)"),
        (GOOD, ForcedChoice(lambda e: [(4,), (4,)]), "none to be a prefix of another"),
        (GOOD, ForcedChoice(lambda e: [(5,), (6,)]), r"expected the answer \(4,\) among them"),
        (GOOD, ForcedChoice(lambda e: [(4,)]), "candidates: expected at least two"),
    ],
)
def test_unscorable_examples(fast: Fast, example: Example, scorer: Scorer, message: str) -> None:
    before = fast.cost.copy()
    good = example if isinstance(scorer, ForcedChoice) else GOOD
    with pytest.raises(ValueError, match=message):
        Effects([good, example], fast, scorer)
    assert fast.cost.since(before).forwards == 0


@pytest.mark.parametrize("executor", [Reference, Fast])
def test_contexts_the_model_cannot_read(model: PreTrainedModel, executor: type[Executor]) -> None:
    runner = executor(model)
    foreign = Example(GOOD.tokens + 40, GOOD.blocks, GOOD.query, (4,))
    with pytest.raises(ValueError, match=r"example 1: context: expected at most 64 positions .* got 65"):
        Effects([GOOD, TOO_LONG], runner)
    with pytest.raises(ValueError, match=r"example 1: tokens: expected ids in \[0, 40\)"):
        Effects([GOOD, foreign], runner)
    with pytest.raises(ValueError, match="expected at most 64 positions"):
        runner.generate([Ask(GOOD, frozenset(), ((4,),))], max_new_tokens=60)
    with pytest.raises(ValueError, match="expected at most 64 positions"):
        runner.read([Ask(GOOD, frozenset(), ((4,),)), Ask(TOO_LONG, frozenset(), ((4,),))])
    assert runner.cost.forwards == 0


@pytest.mark.parametrize("executor", [Reference, Fast])
def test_nan_logits(executor: type[Executor]) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(11)
        broken = LlamaForCausalLM(LlamaConfig(**SHAPE)).eval()
    runner = executor(broken)
    with torch.no_grad():
        broken.lm_head.weight[3] = torch.nan
    with pytest.raises(ValueError, match=r"logits: expected numbers, got NaN with blocks \[0\] visible"):
        runner.read([Ask(GOOD, frozenset({0}), ((4,),))])


@pytest.mark.parametrize("executor", [Reference, Fast])
def test_models_that_cannot_be_honoured(model: PreTrainedModel, executor: type[Executor]) -> None:
    bloom = BloomForCausalLM(BloomConfig(vocab_size=40, hidden_size=16, n_layer=1, n_head=2)).eval()
    with pytest.raises(ValueError, match=r"BloomForCausalLM .* is not supported: it uses ALiBi"):
        executor(bloom)
    model.train()
    try:
        with pytest.raises(ValueError, match="expected evaluation mode, got training mode"):
            executor(model)
    finally:
        model.eval()


def test_bad_arguments(model: PreTrainedModel, fast: Fast) -> None:
    with pytest.raises(ValueError, match="max_tokens: expected at least 1, got 0"):
        Fast(model, max_tokens=0)
    with pytest.raises(ValueError, match="temperature: expected a positive number, got 0"):
        fast.read([], temperature=0)
    with pytest.raises(ValueError, match="effort: expected one of exact, certified, grouped, got 'quick'"):
        Effects([GOOD], fast, effort="quick")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="continuations: expected at least one"):
        fast.read([Ask(GOOD, frozenset(), ((),))])


@pytest.mark.parametrize("wrong", [-1, 40, 10_000])
def test_answers_outside_the_vocabulary(fast: Fast, wrong: int) -> None:
    with pytest.raises(
        ValueError, match=rf"answer: expected ids in \[0, 40\), got {min(wrong, 1)} to {max(wrong, 1)};"
    ):
        Effects([replace(GOOD, answer=(1, wrong))], fast, TeacherForced())


@pytest.mark.parametrize("effort", ["exact", "certified", "grouped"])
def test_no_examples_are_no_effects(fast: Fast, effort: Effort) -> None:
    effects = Effects([], fast, effort=effort)
    assert effects.drop.shape == effects.sufficient.shape == (0, 0)
