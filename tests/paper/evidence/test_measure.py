"""Tools and numbers on tiny real models: what is asked, what is read, how parts become one figure."""

import math
import random
from statistics import fmean

import pytest
import torch

from keepset.interventions import Ask, Reference
from keepset.paper.bench.engine.tally import Spent
from keepset.paper.bench.models import tiny_model
from keepset.paper.evidence.measure import Outcome, mean, metrics, pooled_mean, pooled_shares, told, truth_of
from keepset.paper.evidence.tools import TOOLS, Found, divergence, half_of_best
from keepset.paper.evidence.two_hop import PEOPLE, two_hop_document
from keepset.paper.evidence.units import Task, Unit, two_hop_units

UNIT = Unit(
    "pier",
    "The pier was rebuilt. Dr. Vane ran it {so to say}. It burned down. Nobody came. All was quiet.",
    "Who ran the pier?",
    "Dr. Vane",
    None,
    frozenset({1}),
    number=0,
)


def found(scores: list[float], chosen: set[int]) -> Outcome:
    return Outcome(frozenset({1}), Found(tuple(scores), frozenset(chosen)), Spent(0.5, 1.0, 10), (1.0, 2.0), 0.25)


def test_the_prompt_without_a_sentence() -> None:
    _, tokenizer = tiny_model()
    task = Task(UNIT, tokenizer)
    pieces = task.pieces()
    assert pieces.before + "".join(pieces.sentences) + pieces.after == task.example.text
    assert pieces.after.startswith(f"{pieces.between}{UNIT.question}")
    assert task.text(without=1) == task.example.text.replace("Dr. Vane ran it {so to say}. ", "")


@pytest.mark.parametrize("tool", ["leave-one-out", "arc-jsd"])
def test_a_tool_that_hides_measures_what_a_plain_forward_says(tool: str) -> None:
    model, tokenizer = tiny_model()
    task = Task(UNIT, tokenizer)
    scores = TOOLS[tool](model, tokenizer)(task).scores
    answer = task.example.answer
    if tool == "leave-one-out":
        every = frozenset(range(5))
        keeps = [every, *(every - {i} for i in range(5))]
        readings = Reference(model).read([Ask(task.example, keep, (answer,)) for keep in keeps])
        full, *hidden = (sum(views[0].log_probs[0]) for views in readings)
        assert scores == pytest.approx([full - one for one in hidden], abs=1e-4)
    else:
        rows = []
        for text in (task.example.text, task.text(without=3)):
            tokens = [*tokenizer.encode(text), *answer[:-1]]
            with torch.no_grad():
                rows.append(model(torch.tensor([tokens])).logits[0, -len(answer) :].log_softmax(-1))
        assert scores[3] == pytest.approx(divergence(*rows), abs=1e-5)
        assert min(scores) > 0


def test_divergence() -> None:
    one = torch.tensor([[0.5, 0.5], [1 - 1e-9, 1e-9]]).log()
    other = torch.tensor([[0.5, 0.5], [1e-9, 1 - 1e-9]]).log()
    assert divergence(one, one) == pytest.approx(0, abs=1e-6)
    assert divergence(one, other) == pytest.approx(math.log(2), abs=1e-4), "one of two places differs in everything"


def test_a_set_is_what_has_half_of_the_best_score() -> None:
    assert half_of_best([1.0, 0.5, 0.4, -1.0]).chosen == {0, 1}
    assert half_of_best([0.0, -1.0]).chosen == frozenset()


def test_outcomes() -> None:
    right, tied, more = found([0, 2, 1], {1}), found([2, 2, 1], {0, 1}), found([3, 2, 1], set())
    assert [outcome.first for outcome in (right, tied, more)] == [True, False, False]
    assert [outcome.exactly for outcome in (right, tied, more)] == [True, False, False]
    assert [(outcome.precision, outcome.recall) for outcome in (right, tied, more)] == [(1, 1), (0.5, 1), (0, 0)]
    pair = Outcome(frozenset({0, 1}), Found((3, 1, 2), frozenset({0, 1, 2})), Spent(0, 0, 0), (0, 0), 0)
    assert (pair.first, pair.ranked, pair.whole, pair.exactly) == (True, False, True, False)
    numbers = {(metric.what, *metric.at.values()): metric for metric in metrics([right, tied, more])}
    assert numbers["first",].each == "100"
    assert numbers["drop", 3].value == 2.0
    assert numbers["size",].value == 1.0


def test_truth_hides_and_keeps_what_it_says() -> None:
    model, tokenizer = tiny_model()
    truth = truth_of(UNIT, model, tokenizer)
    assert [len(keep) for keep in truth.halves] == [2] * 8
    assert truth.halves == truth_of(UNIT, model, tokenizer).halves
    drops = TOOLS["leave-one-out"](model, tokenizer)(truth.task).scores
    assert [truth.drop(frozenset({i})) for i in range(5)] == pytest.approx(list(drops), abs=1e-4)
    assert truth.datamodelling([0.0] * 5) == 0.0
    assert -1 <= truth.datamodelling(drops) <= 1


def test_parts_become_one_figure() -> None:
    rng = random.Random(0)
    parts = [[rng.random() for _ in range(size)] for size in (20, 20, 7)]
    values = [value for part in parts for value in part]
    one, every = pooled_mean("x", [mean("x", part) for part in parts]), mean("x", values)
    assert (one.value, one.n) == (pytest.approx(fmean(values)), 47)
    assert one.high == pytest.approx(every.high, abs=0.02)
    shares = pooled_shares("y", [told("y", [True, False]), told("y", [True])])
    assert (shares.each, shares.n, shares.value) == ("101", 3, pytest.approx(2 / 3))


def test_a_two_hop_document_needs_both_sentences() -> None:
    made = two_hop_document(random.Random(5))
    assert len(made.sentences) == 2 * PEOPLE
    assert len(made.gold) == 2
    office_and_town = made.question.removeprefix("Where does the ").removesuffix(" live?")
    holding = {i for i, said in enumerate(made.sentences) if made.answer[3:] in said or office_and_town in said}
    assert holding == made.gold, "one names the office, the other the home"
    naming = {i for i in made.gold if office_and_town in made.sentences[i]}
    assert len(naming) == 1, "neither says both"
    first, second = two_hop_units(2)
    assert first.context != second.context
    _, tokenizer = tiny_model()
    assert len(Task(first, tokenizer).example.blocks) == 2 * PEOPLE
