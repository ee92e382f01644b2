"""Routed accuracy: selection, the forward behind it, and chains."""

import pytest
import torch
from transformers import PreTrainedModel

from keepset.blocks import ExampleBatch
from keepset.interventions import GoldToken, Probe, Reference
from keepset.paper.routed import (
    budget_blocks,
    chain_blocks,
    chain_recall,
    family_scores,
    random_scores,
    routed_correct,
    routed_probe,
    top_blocks,
)
from keepset.paper.testbed.tasks import CONDITIONS, sample_condition
from keepset.paper.testbed.tasks.oracle import read_query, read_records
from keepset.paper.testbed.teachers.presets import smoke
from keepset.paper.testbed.teachers.teacher import accuracy, build_teacher

CONFIG = smoke("five-task", 0)


def sample(condition: str, examples: int = 12) -> ExampleBatch:
    return sample_condition(condition, 0, examples, 12, CONFIG.block_width, CONFIG.vocabulary)


@pytest.fixture(scope="module")
def model() -> PreTrainedModel:
    torch.manual_seed(0)
    model = build_teacher(CONFIG.model_copy(update={"n_blocks": 12}))
    for name, parameter in model.named_parameters():
        if name.endswith(("o_proj.weight", "down_proj.weight")):  # zero at the start: nothing would read the context
            torch.nn.init.normal_(parameter, std=0.3)
    return model.eval()


@pytest.mark.parametrize(
    ("fraction", "n_blocks", "expected"), [(0.1, 16, 2), (0.1, 32, 4), (0.1, 30, 3), (0.1, 128, 13), (0.07, 100, 7)]
)
def test_a_budget_rounds_up(fraction: float, n_blocks: int, expected: int) -> None:
    assert budget_blocks(fraction, n_blocks) == expected


@pytest.mark.parametrize("fraction", [0.0, -0.1, 1.5])
def test_a_budget_is_a_share(fraction: float) -> None:
    with pytest.raises(ValueError, match=r"budget: expected a share in \(0, 1\]"):
        budget_blocks(fraction, 16)


def test_the_best_blocks_are_kept_and_ties_fall_to_the_lower() -> None:
    scores = torch.tensor([[0.1, 0.9, 0.5, 0.5], [1.0, 1.0, 1.0, 1.0]])
    assert top_blocks(scores, 2).int().tolist() == [[0, 1, 1, 0], [1, 1, 0, 0]]
    assert bool(top_blocks(scores, 4).all())


@pytest.mark.parametrize("k", [0, 5, -1])
def test_a_budget_outside_the_blocks_is_refused(k: int) -> None:
    with pytest.raises(ValueError, match=rf"budget: expected 1 to 4 blocks \(the context has 4\), got {k}"):
        top_blocks(torch.zeros(2, 4), k)


def test_scores_must_be_numbers() -> None:
    with pytest.raises(ValueError, match="expected numbers, got NaN"):
        top_blocks(torch.tensor([[0.0, torch.nan]]), 1)


def test_keeping_everything_is_the_dense_accuracy(model: PreTrainedModel) -> None:
    batch = sample("unique")
    everything = torch.ones_like(batch.family[:, 0])
    assert torch.equal(routed_correct(routed_probe(model, batch), everything), accuracy(model, batch))


def test_routed_accuracy_equals_the_reference_executor(model: PreTrainedModel) -> None:
    batch = sample("multihop", 60)
    kept = top_blocks(random_scores(60, 12, seed=0), 3)
    correct = routed_correct(routed_probe(model, batch), kept)
    assert torch.equal(correct, routed_correct(Probe(batch, Reference(model), GoldToken()), kept))
    assert correct.dtype == torch.bool
    assert 0 < int(correct.sum()) < 60


def test_selectors_that_agree_share_their_forward(model: PreTrainedModel) -> None:
    batch = sample("unique")
    probe = routed_probe(model, batch)
    kept = top_blocks(family_scores(batch.family), 2)
    first = routed_correct(probe, kept)
    spent = probe.executor.cost.copy()
    assert torch.equal(routed_correct(probe, kept), first)
    assert probe.executor.cost.since(spent).forwards == 0


def test_one_row_per_example(model: PreTrainedModel) -> None:
    batch = sample("unique")
    with pytest.raises(ValueError, match=r"kept: expected one row per example \(12\), got 3"):
        routed_correct(routed_probe(model, batch), torch.ones(3, 12, dtype=torch.bool))


def test_the_oracle_keeps_whole_sets_first_then_the_order_of_the_context() -> None:
    family = torch.zeros(1, 2, 6, dtype=torch.bool)
    family[0, 0, [3, 5]] = True
    family[0, 1, [1, 2]] = True
    order = [top_blocks(family_scores(family), k)[0].nonzero().flatten().tolist() for k in range(1, 7)]
    assert order == [[3], [3, 5], [1, 3, 5], [1, 2, 3, 5], [0, 1, 2, 3, 5], [0, 1, 2, 3, 4, 5]]


def test_random_gates_are_seeded_and_fair() -> None:
    assert torch.equal(random_scores(4, 6, seed=1), random_scores(4, 6, seed=1))
    share = top_blocks(random_scores(6_000, 6, seed=0), 2).float().mean(0)
    torch.testing.assert_close(share, torch.full((6,), 1 / 3), rtol=0, atol=0.03)


@pytest.mark.parametrize("condition", [name for name in CONDITIONS if name.startswith("multihop")])
def test_a_chain_is_in_the_order_it_is_followed(condition: str) -> None:
    batch = sample(condition)
    chains = chain_blocks(batch)
    for i, chain in enumerate(chains.tolist()):
        example = batch.example(i)
        records = [read_records(example.tokens, example.blocks, CONFIG.vocabulary)[block] for block in chain]
        asked: object = read_query(example.tokens, example.query, CONFIG.vocabulary)
        for record in records:
            assert record is not None
            assert record.key == asked
            asked = record.content
        assert (asked,) == example.answer
        assert frozenset(chain) in (example.family or ())


def test_chain_recall_by_element() -> None:
    batch = sample("multihop")
    chain = chain_blocks(batch)
    kept = batch.family[:, 0].clone()
    assert bool(chain_recall(kept, chain).all())
    kept[torch.arange(12), chain[:, 1]] = False
    assert chain_recall(kept, chain).float().mean(0).tolist() == [1.0, 0.0, 1.0]


@pytest.mark.parametrize("condition", ["unique", "aggregation"])
def test_conditions_without_chains_are_refused(condition: str) -> None:
    with pytest.raises(ValueError, match="only multi-hop conditions have chains"):
        chain_blocks(sample(condition))
