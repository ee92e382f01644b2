"""The training loop: side by side equals alone, streams repeat, and a router learns."""

from collections.abc import Iterator
from functools import partial

import pytest
import torch
from torch import Tensor

from keepset.paper.routed import top_blocks
from keepset.paper.testbed.routers import ROUTERS, build_router, example_batch, router_input, score_blocks
from keepset.paper.testbed.tasks import Vocabulary, sample_condition
from keepset.routers import KL, Coverage, SparseKL, Stream, table_stream, train_routers
from keepset.routers.targets import as_distribution

VOCABULARY = Vocabulary(families=4, members=4, values=4)
WIDTH = 4
BLOCKS = 8
LOSSES = {"imitation": KL(), "sparse": SparseKL(3), "causal": Coverage()}


@pytest.fixture
def double_precision() -> Iterator[None]:
    """In float32 Adam blows up the rounding of gradients that are zero by construction (the score bias under KL)."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def stream() -> Stream:
    batch = example_batch({"unique": 1.0, "duplicate": 1.0}, 0, 0, 96, BLOCKS, WIDTH, VOCABULARY)
    noise = torch.rand(96, BLOCKS, generator=torch.Generator().manual_seed(0))
    attention = as_distribution(as_distribution(batch.family.any(1).float()) + 0.2 * noise)
    targets = {"imitation": attention, "sparse": attention, "causal": batch.family}
    return table_stream(router_input(batch).to(torch.int16), targets, batch=16, run=0)


@pytest.mark.usefixtures("double_precision")
@pytest.mark.parametrize("kind", list(ROUTERS))
def test_side_by_side_equals_alone(kind: str, stream: Stream) -> None:
    build = partial(build_router, kind, VOCABULARY, WIDTH)
    together = train_routers(build, range(2), LOSSES, stream, steps=8)
    for name, loss in LOSSES.items():
        for seed in range(2):
            alone = train_routers(build, [seed], {name: loss}, stream, steps=8)[name][0]
            expected = alone.state_dict()
            for key, value in together[name][seed].state_dict().items():
                torch.testing.assert_close(value, expected[key], rtol=0, atol=1e-9, msg=f"{name} {seed} {key}")


@pytest.mark.parametrize("kind", list(ROUTERS))
def test_the_loop_is_plain_adam(kind: str, stream: Stream) -> None:
    router = build_router(kind, VOCABULARY, WIDTH, seed=5)
    optimizer = torch.optim.Adam(router.parameters(), lr=1e-3)
    for step in range(10):
        tokens, targets = stream(step)
        loss = Coverage()(router(tokens), targets["causal"], step / 10).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    build = partial(build_router, kind, VOCABULARY, WIDTH)
    trained = train_routers(build, [5], {"causal": Coverage()}, stream, steps=10)["causal"][0]
    for key, value in router.state_dict().items():
        torch.testing.assert_close(trained.state_dict()[key], value, rtol=0, atol=1e-5)


def test_a_table_is_read_whole_and_in_a_new_order_each_time() -> None:
    tokens = torch.arange(10).unsqueeze(1)
    stream = table_stream(tokens, {"arm": tokens * 2}, batch=5, run=0)

    def epoch(first: int) -> list[int]:
        return [int(row) for step in (first, first + 1) for row in stream(step)[0]]

    assert sorted(epoch(0)) == sorted(epoch(2)) == list(range(10))
    assert epoch(0) != epoch(2)
    assert epoch(0) == epoch(0)
    rows, targets = stream(7)
    assert torch.equal(targets["arm"], rows * 2)
    assert not torch.equal(table_stream(tokens, {}, batch=5, run=1)(0)[0], stream(0)[0])


def test_fresh_examples_differ_by_step_and_run() -> None:
    def tokens(step: int, run: int) -> Tensor:
        return example_batch({"unique": 1.0}, step, run, 8, BLOCKS, WIDTH, VOCABULARY).tokens

    assert torch.equal(tokens(3, 0), tokens(3, 0))
    assert not torch.equal(tokens(3, 0), tokens(4, 0))
    assert not torch.equal(tokens(3, 0), tokens(3, 1))


def test_a_pooling_router_learns_unique_retrieval() -> None:
    """Chance is 1/8; at least 0.9 of the annotated blocks must come first after 300 steps."""

    def stream(step: int) -> tuple[Tensor, dict[str, Tensor]]:
        batch = example_batch({"unique": 1.0}, step, 0, 64, BLOCKS, WIDTH, VOCABULARY)
        return router_input(batch), {"causal": batch.family}

    build = partial(build_router, "pooling", VOCABULARY, WIDTH)
    router = train_routers(build, [0], {"causal": Coverage()}, stream, steps=300, learning_rate=3e-3)["causal"][0]
    batch = sample_condition("unique", 1, 300, BLOCKS, WIDTH, VOCABULARY)
    found = (top_blocks(score_blocks(router, batch), 1) & batch.family[:, 0]).any(1)
    assert float(found.float().mean()) >= 0.9


def test_errors() -> None:
    tokens = torch.zeros(10, 3, dtype=torch.long)
    with pytest.raises(ValueError, match=r"expected one per example \(10 examples\), got {'arm': 9}"):
        table_stream(tokens, {"arm": tokens[:9]}, batch=5, run=0)
    for batch in (0, 11):
        with pytest.raises(ValueError, match=f"expected 1 to 10 .*, got {batch}"):
            table_stream(tokens, {}, batch=batch, run=0)
    build = partial(build_router, "pooling", VOCABULARY, WIDTH)
    with pytest.raises(ValueError, match="expected at least one seed and one arm, got 0 and 1"):
        train_routers(build, [], {"causal": Coverage()}, lambda step: (tokens, {}), steps=1)


def test_a_loss_that_is_not_finite_stops_the_training(stream: Stream) -> None:
    def broken(step: int) -> tuple[Tensor, dict[str, Tensor]]:
        tokens, targets = stream(step)
        return tokens, {"imitation": targets["imitation"] * (torch.nan if step == 2 else 1.0)}

    build = partial(build_router, "pooling", VOCABULARY, WIDTH)
    with pytest.raises(ValueError, match="step 2: expected a finite loss, got nan"):
        train_routers(build, [0], {"imitation": KL()}, broken, steps=4)
