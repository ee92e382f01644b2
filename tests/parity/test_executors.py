"""All executors give the same numbers, and those of a plain transformers forward where there is one."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from transformers import PreTrainedModel

from keepset.blocks import Example
from keepset.interventions import Ask, Executor, Fast, Reference
from tests.parity.subject import (
    CONTINUATIONS,
    EXACT,
    EXAMPLES,
    OPERATORS,
    RAGGED,
    VOCABULARY,
    build,
    every_ask,
    example,
    numbers,
)


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
