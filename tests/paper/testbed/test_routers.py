"""What routers read, their size, saving, and what they refuse to load."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from keepset.blocks import ExampleBatch
from keepset.paper.testbed.routers import ROUTERS, build_router, load_router, router_input, score_blocks
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


def test_round_trip(router: Router, tmp_path: Path) -> None:
    batch = sample()
    for _ in range(2):  # the second time over the first
        router.save_pretrained(tmp_path / "router")
    loaded = load_router(tmp_path / "router", VOCABULARY, WIDTH)
    by_class = type(router).from_pretrained(tmp_path / "router")
    assert type(loaded) is type(router)
    for one in (loaded, by_class):
        assert not one.training
        torch.testing.assert_close(score_blocks(one, batch), score_blocks(router, batch), rtol=0, atol=0)
    assert [path.name for path in tmp_path.iterdir()] == ["router"]


def test_saving_does_not_replace_what_is_no_router(router: Router, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ValueError, match=r"only a router, got thesis\.tex; .*choose another one"):
        router.save_pretrained(tmp_path)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_a_failed_save_leaves_the_old_router(router: Router, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    router.save_pretrained(tmp_path / "router")

    def full_disk(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("keepset.routers.network.write_json", full_disk)
    with pytest.raises(OSError, match="no space left"):
        router.save_pretrained(tmp_path / "router")
    assert [path.name for path in tmp_path.iterdir()] == ["router"]
    load_router(tmp_path / "router", VOCABULARY, WIDTH)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    build_router("pooling", VOCABULARY, WIDTH, seed=0).save_pretrained(tmp_path / "router")
    return tmp_path / "router"


def test_a_folder_that_is_no_router(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"expected a saved router .*, got no config\.json"):
        load_router(tmp_path / "nothing", VOCABULARY, WIDTH)
    (tmp_path / "config.json").write_text('{"model_type": "qwen3", "hidden_size": 128}')
    with pytest.raises(ValueError, match="expected the config of a saved router, got something else"):
        load_router(tmp_path, VOCABULARY, WIDTH)
    (tmp_path / "config.json").write_bytes(b"\xff\x00")
    with pytest.raises(ValueError, match="expected the config of a saved router, got something else"):
        load_router(tmp_path, VOCABULARY, WIDTH)


def test_a_router_of_another_kind(saved: Path) -> None:
    config = saved / "config.json"
    config.write_text(config.read_text().replace("pooling", "oracle"))
    with pytest.raises(ValueError, match="expected a router of kind pooling or chain or deep_chain, got 'oracle'"):
        load_router(saved, VOCABULARY, WIDTH)


def test_damaged_weights(saved: Path) -> None:
    weights = saved / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    with pytest.raises(ValueError, match=r"is damaged: expected model\.safetensors .*train the router again"):
        load_router(saved, VOCABULARY, WIDTH)
    weights.unlink()
    with pytest.raises(ValueError, match="got no file; train the router again"):
        load_router(saved, VOCABULARY, WIDTH)


def test_another_vocabulary(saved: Path) -> None:
    # As many tokens, but other ones: a check of the size alone would let it through.
    other = Vocabulary(families=8, members=6, values=6)
    assert other.size == VOCABULARY.size
    with pytest.raises(ValueError, match=r"vocabulary .*families=8.*, got one of .*families=6"):
        load_router(saved, other, WIDTH)


def test_another_block_width(saved: Path) -> None:
    with pytest.raises(ValueError, match="expected a router of block width 8, got one of 5"):
        load_router(saved, VOCABULARY, 8)


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
