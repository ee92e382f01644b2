"""What routers read, their size, and what they refuse to score."""

from dataclasses import replace

import pytest
import torch

from keepset.blocks import ExampleBatch
from keepset.paper.testbed.routers import ROUTERS, build_router, router_input, score_blocks
from keepset.paper.testbed.routers.router import Router
from keepset.paper.testbed.tasks import Vocabulary, sample_condition
from keepset.paper.testbed.teachers.presets import paper

VOCABULARY = Vocabulary(families=6, members=6, values=8)
WIDTH = 5


def sample(n_blocks: int = 9, width: int = WIDTH, n_queries: int = 1) -> ExampleBatch:
    return sample_condition("unique", 0, 12, n_blocks, width, VOCABULARY, n_queries)


@pytest.fixture(params=list(ROUTERS))
def router(request: pytest.FixtureRequest) -> Router:
    return build_router(request.param, VOCABULARY, WIDTH, seed=0).eval()


@pytest.mark.parametrize(("kind", "parameters"), [("pooling", 23_000), ("chain", 111_000)])
def test_size_at_the_papers_vocabulary(kind: str, parameters: int) -> None:
    config = paper("five-task", 0)
    router = build_router(kind, config.vocabulary, config.block_width, seed=0)
    assert sum(p.numel() for p in router.parameters()) == pytest.approx(parameters, rel=0.025)


@pytest.mark.parametrize("n_blocks", [1, 9, 18, 36])
def test_one_score_per_block_at_any_length(router: Router, n_blocks: int) -> None:
    scores = score_blocks(router, sample(n_blocks))
    assert scores.shape == (12, n_blocks)
    assert bool(torch.isfinite(scores).all())


def test_the_answer_never_reaches_a_router(router: Router) -> None:
    batch = sample(n_queries=3)
    answered = batch.tokens.clone()
    answered[:, batch.answer_rows[0] + 1 :] = 0
    other = replace(batch, tokens=answered, answers=torch.zeros_like(batch.answers), family=~batch.family)
    assert not torch.equal(batch.tokens, answered)
    assert torch.equal(router_input(batch), router_input(other))
    torch.testing.assert_close(score_blocks(router, batch), score_blocks(router, other), rtol=0, atol=0)


def test_tokens_with_an_answer_do_not_fit(router: Router) -> None:
    with pytest.raises(ValueError, match="a query of 3 without its answer, got 49 tokens"):
        router(sample().tokens)


def test_scores_depend_on_block_query_and_position(router: Router) -> None:
    batch = sample()
    scores = score_blocks(router, batch)
    query = batch.tokens.clone()
    query[:, batch.context_tokens + 2] = VOCABULARY.member_token(query[:, batch.context_tokens + 2].numpy() * 0)[0]
    assert not torch.equal(scores, score_blocks(router, replace(batch, tokens=query)))
    same = batch.tokens.clone()
    same[:, : 2 * WIDTH] = same[:, :WIDTH].repeat(1, 2)
    twins = score_blocks(router, replace(batch, tokens=same))
    assert bool((twins[:, 0] != twins[:, 1]).any())


def test_only_the_chain_router_tells_the_ends_of_a_pointer_apart() -> None:
    batch = sample()
    pointer = batch.tokens.clone()
    pointer[:, 3:5] = pointer[:, 1:3].roll(1, 0)
    swapped = pointer.clone()
    swapped[:, 1:3], swapped[:, 3:5] = pointer[:, 3:5], pointer[:, 1:3]
    assert not torch.equal(pointer, swapped)

    def gap(kind: str) -> float:
        router = build_router(kind, VOCABULARY, WIDTH, seed=0)
        one, other = (score_blocks(router, replace(batch, tokens=tokens)) for tokens in (pointer, swapped))
        return float((one - other).abs().max())

    assert gap("pooling") < 1e-5
    assert gap("chain") > 1e-2


def test_the_seed_decides_the_weights(router: Router) -> None:
    again = build_router(router.kind, VOCABULARY, WIDTH, seed=0)
    other = build_router(router.kind, VOCABULARY, WIDTH, seed=1)
    assert torch.equal(router.table.weight, again.table.weight)
    assert not torch.equal(router.table.weight, other.table.weight)


def test_scoring_refuses_foreign_examples(router: Router) -> None:
    with pytest.raises(ValueError, match=r"expected 5 tokens each .*got \[8\]"):
        score_blocks(router, sample(width=8))
    large = sample_condition("unique", 0, 4, 9, WIDTH, Vocabulary(families=20, members=20, values=8))
    with pytest.raises(ValueError, match=r"expected ids in \[0, 29\)"):
        score_blocks(router, large)


def test_unknown_kinds_and_narrow_blocks() -> None:
    with pytest.raises(ValueError, match="unknown router 'mixer'; expected one of pooling, chain"):
        build_router("mixer", VOCABULARY, WIDTH, seed=0)
    with pytest.raises(ValueError, match="block_width: expected at least 3"):
        build_router("chain", VOCABULARY, 2, seed=0)
