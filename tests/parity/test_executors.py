"""All executors give the same numbers, and those of a plain transformers forward where there is one.

Random weights, initialised large so that hiding a block moves log-probabilities by nats, not by rounding.
"""

from collections.abc import Callable, Iterator
from itertools import chain, combinations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from keepset.blocks import Example, KeepSet, Span
from keepset.interventions import Ask, Executor, Fast, Mask, Operator, Overwrite, Reading, Reference, filler
from tests.tiny import SHAPE as TINY

VOCABULARY = 40
WINDOW = 6
EXACT = 1e-4
"""Log-probability, float32. Measured: below 1e-5."""
SHAPE = TINY | {"vocab_size": VOCABULARY, "bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
LAYERS = ["sliding_attention", "full_attention"]
GPT2_SHAPE = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "bos_token_id": 0, "eos_token_id": 0}
MODELS: dict[str, Callable[[], PreTrainedModel]] = {
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**SHAPE)),
    "qwen2": lambda: Qwen2ForCausalLM(Qwen2Config(**{k: v for k, v in SHAPE.items() if k != "head_dim"})),
    "qwen3": lambda: Qwen3ForCausalLM(Qwen3Config(**SHAPE)),
    "gemma3": lambda: Gemma3ForCausalLM(Gemma3TextConfig(**SHAPE, sliding_window=WINDOW, layer_types=LAYERS)),
    "mistral": lambda: MistralForCausalLM(MistralConfig(**SHAPE, sliding_window=WINDOW)),
    "gpt2": lambda: GPT2LMHeadModel(GPT2Config(vocab_size=VOCABULARY, initializer_range=0.3, **GPT2_SHAPE)),
}


def build(name: str) -> PreTrainedModel:
    with torch.random.fork_rng():
        torch.manual_seed(7)
        return MODELS[name]().eval()


@pytest.fixture(scope="module", params=MODELS)
def model(request: pytest.FixtureRequest) -> PreTrainedModel:
    return build(request.param)


@pytest.fixture(scope="module")
def llama() -> PreTrainedModel:
    return build("llama")


def example(spans: list[tuple[int, int]], n_tokens: int, seed: int, answer: tuple[int, ...] = (5,)) -> Example:
    tokens = torch.randint(VOCABULARY, (n_tokens,), generator=torch.Generator().manual_seed(seed))
    blocks = tuple(Span(*span) for span in spans)
    return Example(tokens, blocks, Span(blocks[-1].stop, n_tokens), answer)


RAGGED = example([(2, 5), (5, 6), (8, 12), (13, 18)], 22, seed=1)
"""A prefix, gaps between blocks, blocks of one to five tokens."""
EXAMPLES = [RAGGED, example([(0, 4), (4, 8), (8, 12)], 15, seed=2), example([(0, 4), (4, 8), (8, 12)], 15, seed=3)]
CONTINUATIONS = ((5,), (7, 8, 9), (7, 3))
OPERATORS: dict[str, Operator] = {
    "mask": Mask(),
    "overwrite": Overwrite(filler(0)),
    "overwrite2": Overwrite(lambda e: [filler(1)(e)[0], filler(2)(e)[0]]),
}


def keep_sets(e: Example) -> Iterator[KeepSet]:
    numbers = range(len(e.blocks))
    return (frozenset(keep) for keep in chain.from_iterable(combinations(numbers, k) for k in range(len(numbers) + 1)))


def every_ask(examples: list[Example]) -> list[Ask]:
    return [Ask(e, keep, CONTINUATIONS) for e in examples for keep in keep_sets(e)]


def numbers(readings: list[list[Reading]]) -> Tensor:
    return torch.tensor([p for views in readings for reading in views for c in reading.log_probs for p in c])


@torch.no_grad()
def plain_log_prob(model: PreTrainedModel, e: Example, continuation: tuple[int, ...]) -> Tensor:
    """What transformers says with no help: no mask, no positions, no cache."""
    tokens = torch.cat([e.tokens, torch.tensor(continuation)])
    log_probs = model(tokens[None], use_cache=False).logits[0].log_softmax(-1)
    rows = torch.arange(len(e.tokens) - 1, len(tokens) - 1)
    return log_probs[rows, torch.tensor(continuation)]


@pytest.mark.parametrize("executor", [Reference, Fast])
def test_with_every_block_kept_it_is_a_plain_forward(model: PreTrainedModel, executor: type[Executor]) -> None:
    for e in EXAMPLES:
        everything = frozenset(range(len(e.blocks)))
        found = numbers(executor(model).read([Ask(e, everything, CONTINUATIONS)]))
        expected = torch.cat([plain_log_prob(model, e, c) for c in CONTINUATIONS])
        torch.testing.assert_close(found, expected, atol=EXACT, rtol=0)


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("max_tokens", [1, 16_384])
def test_fast_gives_the_numbers_of_the_reference(model: PreTrainedModel, operator: str, max_tokens: int) -> None:
    asks = every_ask(EXAMPLES)
    expected = numbers(Reference(model, OPERATORS[operator]).read(asks))
    assert expected.std() > 0.5  # there is something to get wrong
    found = numbers(Fast(model, OPERATORS[operator], max_tokens).read(asks))
    torch.testing.assert_close(found, expected, atol=EXACT, rtol=0)


@pytest.mark.parametrize("name", ["llama", "gemma3"])
def test_fast_gives_the_numbers_of_the_reference_in_bfloat16(name: str) -> None:
    # bfloat16 has 8 bits: logits of size 4 are rounded by 0.016 in the head alone, and each layer adds its own
    # rounding, in another order of summation; effects here are nats. The median says it is rounding, not error.
    model = build(name).to(torch.bfloat16)
    asks = every_ask(EXAMPLES)
    gap = (numbers(Fast(model).read(asks)) - numbers(Reference(model).read(asks))).abs()
    assert gap.max() < 0.4
    assert gap.median() < 0.03


@st.composite
def context(draw: st.DrawFn) -> Example:
    """Up to five blocks with gaps anywhere, then a query."""
    position, spans = draw(st.integers(0, 3)), []
    for _ in range(draw(st.integers(1, 5))):
        start = position + draw(st.integers(0, 2))
        position = start + draw(st.integers(1, 5))
        spans.append((start, position))
    return example(spans, position + draw(st.integers(1, 4)), seed=draw(st.integers(0, 999)))


@pytest.fixture(scope="module", params=["llama", "gemma3"])
def hypothesis_model(request: pytest.FixtureRequest) -> PreTrainedModel:
    return build(request.param)


@given(data=st.data())
@settings(max_examples=25)
def test_any_keep_sets_in_any_order(hypothesis_model: PreTrainedModel, data: st.DataObject) -> None:
    examples = data.draw(st.lists(context(), min_size=1, max_size=3))
    asks = []
    for e in examples:
        keeps = st.frozensets(st.integers(0, len(e.blocks) - 1))
        asks += [Ask(e, keep, ((3, 4), (5,))) for keep in data.draw(st.lists(keeps, min_size=1, max_size=6))]
    asks = data.draw(st.permutations(asks))
    executor = Fast(hypothesis_model, max_tokens=data.draw(st.sampled_from([1, 40, 16_384])))
    expected = numbers(Reference(hypothesis_model).read(asks))
    torch.testing.assert_close(numbers(executor.read(asks)), expected, atol=EXACT, rtol=0)
    with executor.hold(examples):  # what is held from the first half serves the second
        middle = len(asks) // 2
        found = torch.cat([numbers(executor.read(asks[:middle])), numbers(executor.read(asks[middle:]))])
    torch.testing.assert_close(found, expected, atol=EXACT, rtol=0)


@pytest.mark.parametrize("name", ["llama", "gemma3", "gpt2"])
def test_greedy_continuations_agree_and_are_those_of_transformers(name: str) -> None:
    model = build(name)
    asks = every_ask(EXAMPLES)
    found = Fast(model, max_tokens=100).generate(asks, max_new_tokens=5)
    assert found == Reference(model).generate(asks, max_new_tokens=5)
    clean = found[len(list(keep_sets(RAGGED))) - 1][0]
    # transformers' own loop: gaps and windows do not arise, nothing is hidden
    tokens = RAGGED.tokens[None]
    for _ in range(5):
        with torch.no_grad():
            tokens = torch.cat([tokens, model(tokens, use_cache=False).logits[:, -1:].argmax(-1)], dim=1)
    assert clean == tuple(tokens[0, -5:].tolist())


@pytest.mark.parametrize("name", ["llama", "gemma3", "gpt2"])
def test_a_guess_changes_nothing_but_the_number_of_forwards(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keepset.interventions.executors.lookup.GUESSES", 0)
    model = build(name)
    asks = [Ask(RAGGED, frozenset(keep), ((5,),)) for keep in ((0, 1, 2, 3), (0, 2), (1,))]
    alone = [Fast(model).generate([ask], 6) for ask in asks]
    for ask, ((written,),) in zip(asks, alone, strict=True):
        for right in (0, 2, 5, 6):
            guess = (*written[:right], *((token + 1) % VOCABULARY for token in written[right:]), 3, 4)
            executor = Fast(model)
            assert executor.generate([ask], 6, guess=guess) == [[written]]
            assert executor.cost.forwards == 6 - min(right, 5)
            until = written[: written.index(written[1])]
            assert executor.generate([ask], 6, frozenset({written[1]}), guess) == [[until]]
        assert Fast(model).generate(asks, 6, guess=written) == [found for (found,) in alone]
        assert Reference(model).generate([ask], 6, guess=written) == [[written]]


@pytest.mark.parametrize("name", ["llama", "gemma3", "gpt2"])
@pytest.mark.parametrize("keep", [(0, 1, 2, 3), (0, 2), ()])
def test_what_is_looked_up_changes_nothing_but_the_number_of_forwards(
    name: str, keep: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, ask = build(name), Ask(RAGGED, frozenset(keep), ((5,),))
    expected = Reference(model).generate([ask], 12)
    ((written,),) = expected
    executor = Fast(model)
    assert executor.generate([ask], 12) == expected
    for found in (written[1:5], (*written[1:3], (written[3] + 1) % VOCABULARY), ((written[1] + 1) % VOCABULARY,)):
        executor = Fast(model)
        guesses = iter([found])
        monkeypatch.setattr(
            "keepset.interventions.executors.fast.looked_up", lambda tokens, most, g=guesses: next(g, ())[:most]
        )
        assert executor.generate([ask], 12) == expected
        right = sum(a == b for a, b in zip(found, written[1:], strict=False))
        assert executor.cost.forwards == 12 - right, "each guess that is right saves a forward"
        assert executor.cost.tokens - len(RAGGED.tokens) <= 12 + len(found)


def test_generation_ends_before_the_first_stop_token(llama: PreTrainedModel) -> None:
    ask = Ask(RAGGED, frozenset({0, 2}), ((5,),))
    ((whole,),) = Fast(llama).generate([ask], 5)
    stop = frozenset({whole[2]})
    expected = whole[: whole.index(whole[2])]
    assert Fast(llama).generate([ask], 5, stop) == Reference(llama).generate([ask], 5, stop) == [[expected]]


# The pitfalls of the design.


def test_what_a_hidden_block_says_does_not_matter(model: PreTrainedModel) -> None:
    tokens = RAGGED.tokens.clone()
    tokens[8:12] = (tokens[8:12] + 1) % VOCABULARY
    other = Example(tokens, RAGGED.blocks, RAGGED.query, RAGGED.answer)
    for executor in (Reference(model), Fast(model)):
        hidden = [numbers(executor.read([Ask(e, frozenset({0, 1, 3}), CONTINUATIONS)])) for e in (RAGGED, other)]
        torch.testing.assert_close(*hidden, atol=1e-6, rtol=0)
        visible = [numbers(executor.read([Ask(e, frozenset(range(4)), CONTINUATIONS)])) for e in (RAGGED, other)]
        assert not torch.allclose(*visible, atol=0.05)


def test_gapped_positions_without_a_mask_are_wrong_and_never_sent(llama: PreTrainedModel) -> None:
    keep = frozenset({1, 3})
    shown = torch.tensor([t for t in range(22) if not (2 <= t < 5 or 8 <= t < 12)])
    with torch.no_grad():
        naive = llama(RAGGED.tokens[shown][None], position_ids=shown[None], use_cache=False).logits[0, -1]
    expected = numbers(Reference(llama).read([Ask(RAGGED, keep, ((5,),))]))
    assert abs(naive.log_softmax(-1)[5] - expected[0]) > 0.01
    seen: list[Tensor | None] = []

    def watch(module: nn.Module, args: tuple[object, ...], kwargs: dict[str, Tensor | None]) -> None:
        seen.append(kwargs.get("attention_mask"))

    executor = Fast(llama)
    handle = llama.register_forward_pre_hook(watch, with_kwargs=True)
    try:
        executor.read(every_ask(EXAMPLES))
    finally:
        handle.remove()
    assert seen
    assert all(mask is not None and mask.ndim == 4 for mask in seen)


def test_a_window_counts_positions_not_slots() -> None:
    # Keep the first and last block: in slots they are neighbours, in positions further apart than the window.
    model = build("mistral")
    e = example([(0, 3), (3, 6), (6, 9), (9, 12), (12, 14)], 16, seed=4)
    far = [numbers(Fast(model).read([Ask(e, keep, ((5,),))])) for keep in (frozenset({0, 4}), frozenset({4}))]
    # Two layers of window 6 reach back ten positions from the answer row 15; block 0 ends at 2.
    torch.testing.assert_close(*far, atol=EXACT, rtol=0)


def test_batched_equals_single(model: PreTrainedModel) -> None:
    asks = every_ask(EXAMPLES)[::3]
    executor = Fast(model)
    together = numbers(executor.read(asks))
    alone = torch.cat([numbers(executor.read([ask])) for ask in asks])
    torch.testing.assert_close(together, alone, atol=EXACT, rtol=0)


def test_branches_do_not_read_each_other(llama: PreTrainedModel) -> None:
    """A cache that grew in place would change what is read after others have branched off it."""
    everything = frozenset(range(4))
    asks = [Ask(RAGGED, everything - {i}, CONTINUATIONS) for i in range(4)]
    others = [Ask(RAGGED, everything - {i, 3}, CONTINUATIONS) for i in range(3)]

    def last_read(*batches: list[Ask]) -> Tensor:
        executor = Fast(llama)
        with executor.hold([RAGGED]):
            executor.read([Ask(RAGGED, everything, CONTINUATIONS)])
            return [numbers(executor.read(batch)) for batch in batches][-1]

    again = last_read(others, asks[::-1]).view(4, -1).flip(0).flatten()
    assert torch.equal(last_read(asks), again)


def test_the_fill_is_the_papers_and_enough(llama: PreTrainedModel) -> None:
    from keepset.models.masks import FILL, additive

    assert FILL == -1e4
    mask = additive(torch.tensor([[[True, False]]]), torch.float32)
    assert mask.tolist() == [[[[0.0, -1e4]]]]
    assert torch.softmax(mask, -1)[..., 1] == 0


# Cost.


def test_tokens_computed_are_those_of_the_design() -> None:
    shape = SHAPE | {"hidden_size": 8, "num_attention_heads": 1, "num_key_value_heads": 1, "num_hidden_layers": 1}
    model = LlamaForCausalLM(LlamaConfig(**(shape | {"intermediate_size": 8, "max_position_embeddings": 512}))).eval()
    n, width, query = 32, 8, 4
    e = example([(i * width, (i + 1) * width) for i in range(n)], n * width + query, seed=5)
    everything = frozenset(range(n))
    keeps = [everything, *(everything - {i} for i in range(n)), *(frozenset({i}) for i in range(n))]
    executor = Fast(model)
    executor.read([Ask(e, keep, ((5,),)) for keep in keeps])
    assert len(keeps) * len(e.tokens) == 16_900
    # 4,740 without padding; short branches run together, padded to the longest of them.
    assert 4_640 <= executor.cost.tokens <= 4_740 * 1.1
    assert executor.cost.views == len(keeps)


def test_held_context_is_not_computed_again(llama: PreTrainedModel) -> None:
    executor = Fast(llama)
    with executor.hold([RAGGED]):
        executor.read([Ask(RAGGED, frozenset(range(4)), ((5,),))])
        before = executor.cost.copy()
        executor.read([Ask(RAGGED, frozenset(range(3)), ((5,),))])
        # Hiding the last block leaves the gap before it and everything earlier as it was: 18 to 21 are new.
        assert executor.cost.since(before).tokens == 4
        executor.read([Ask(RAGGED, frozenset(range(keep)), ((5,),)) for keep in (4, 3)])
        assert executor.cost.since(before).tokens == 4, "what was read once is known"
        executor.read([Ask(RAGGED, frozenset(range(3)), ((6,),))])
        assert executor.cost.since(before).tokens == 8, "but not of another continuation"


def test_a_prompt_cut_before_its_question_shares_the_context_that_is_held(llama: PreTrainedModel) -> None:
    cut = Example(RAGGED.tokens[:-1], RAGGED.blocks, Span(RAGGED.query.start, len(RAGGED.tokens) - 1), RAGGED.answer)
    said = (int(RAGGED.tokens[-1]), 5)
    everything: KeepSet = frozenset(range(4))
    asks = [Ask(cut, keep, (said,)) for keep in (everything, everything - {1}, frozenset({2}))]
    alone = numbers(Fast(llama).read(asks))
    executor = Fast(llama)
    with executor.hold([RAGGED, cut]):
        executor.generate([Ask(RAGGED, everything, ((5,),))], 3)
        before = executor.cost.copy()
        executor.read(asks[:1])
        spent = executor.cost.since(before).tokens
        shared = numbers(executor.read(asks))
    torch.testing.assert_close(shared, alone, atol=EXACT, rtol=0)
    assert spent == len(cut.tokens) - RAGGED.blocks[-1].stop + len(said) - 1, "only what stands after the last block"


def test_equal_keep_sets_run_once(llama: PreTrainedModel) -> None:
    executor = Fast(llama)
    found = executor.read([Ask(RAGGED, frozenset({1}), ((5,),))] * 3)
    assert executor.cost.views == 1
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("executor", [Reference, Fast])
@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError("no"), RuntimeError("DefaultCPUAllocator: not enough memory")]
)
def test_a_batch_that_does_not_fit_is_split(llama: PreTrainedModel, executor: type[Executor], error: Exception) -> None:
    asks = every_ask(EXAMPLES)
    expected = numbers(Reference(llama).read(asks))

    def only_two_rows(module: nn.Module, args: tuple[Tensor, ...]) -> None:
        if args[0].shape[0] > 2:
            raise error

    runner = executor(llama)
    handle = llama.register_forward_pre_hook(only_two_rows)
    try:
        found = numbers(runner.read(asks))
    finally:
        handle.remove()
    torch.testing.assert_close(found, expected, atol=EXACT, rtol=0)


def test_other_errors_are_not_swallowed(llama: PreTrainedModel) -> None:
    def broken(module: nn.Module, args: tuple[Tensor, ...]) -> None:
        raise RuntimeError("something else")

    runner = Fast(llama)
    handle = llama.register_forward_pre_hook(broken)
    try:
        with pytest.raises(RuntimeError, match="something else"):
            runner.read(every_ask([RAGGED]))
    finally:
        handle.remove()


def test_temperature_divides_the_logits(llama: PreTrainedModel) -> None:
    ask = Ask(RAGGED, frozenset({0, 2}), ((5,), (6,)))
    cool, warm = (numbers(Fast(llama).read([ask], t)) for t in (1.0, 2.0))
    assert float(cool[0] - cool[1]) / 2 == pytest.approx(float(warm[0] - warm[1]), abs=1e-5)
