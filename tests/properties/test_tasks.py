"""Every generator against the brute-force oracle, which reads the tokens alone."""

from collections import Counter
from dataclasses import dataclass
from math import ceil
from typing import Literal

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from keepset.blocks import ExampleBatch, Span
from keepset.paper.testbed.tasks import CONDITIONS, Task, Vocabulary, find_condition, sample_condition
from keepset.paper.testbed.tasks.aggregation import Aggregation
from keepset.paper.testbed.tasks.conditions import WARM_UPS
from keepset.paper.testbed.tasks.duplicate import Duplicate
from keepset.paper.testbed.tasks.latest_write import LatestWrite
from keepset.paper.testbed.tasks.mixture import sample_mixture, shares
from keepset.paper.testbed.tasks.multihop import Multihop, Order
from keepset.paper.testbed.tasks.oracle import Record, read_query, read_records
from keepset.paper.testbed.tasks.sheet import encode
from keepset.paper.testbed.tasks.unique import Unique
from keepset.paper.testbed.tasks.vocabulary import WRITE
from tests.oracle import oracle_answer, oracle_family

pytestmark = pytest.mark.long

SEEDS = st.integers(0, 2**63 - 1)
VOCABULARY = Vocabulary(families=8, members=8, values=16)


@dataclass(frozen=True)
class Case:
    """Everything a generator is given."""

    task: Task
    n_blocks: int
    vocabulary: Vocabulary
    width: int
    n_queries: int
    seed: int

    def sample(self, n_queries: int | None = None, batch: int = 3) -> ExampleBatch:
        rng = np.random.default_rng(self.seed)
        sheet = self.task.sample(rng, batch, self.n_blocks, n_queries or self.n_queries, self.vocabulary)
        return encode(sheet, self.vocabulary, self.width)


def fewest_blocks(task: Task) -> int:
    match task:
        case Unique():
            return 1 + (task.family_distractors or 0)
        case LatestWrite():
            return task.stale + 2
        case Duplicate():
            return task.copies + 1
        case Multihop():
            return (1 + task.distractor_chains + task.redundant) * (task.hops + 1)
        case _:
            return 6


@st.composite
def cases(draw: st.DrawFn, task: Task) -> Case:
    """The smallest contexts and key spaces the task fits in, and somewhat larger ones."""
    fewest = fewest_blocks(task)
    n_blocks = draw(st.integers(fewest, max(fewest, 9)))
    names_family = isinstance(task, Aggregation) or getattr(task, "family_distractors", None) is not None
    shared = task.shared if isinstance(task, Unique) else None
    fewest_members = max(n_blocks, 2) if shared == "family" else 5 if names_family else 2
    members = draw(st.integers(fewest_members, max(fewest_members, 8)))
    families = max(2, n_blocks if shared == "member" else ceil(n_blocks / members) + names_family)
    vocabulary = Vocabulary(
        families=draw(st.integers(families, families + 3)), members=members, values=draw(st.integers(2, 5))
    )
    width = (5 if isinstance(task, Multihop) else 4) + draw(st.integers(0, 2))
    return Case(task, n_blocks, vocabulary, width, draw(st.integers(1, 9)), draw(SEEDS))


TASKS = st.one_of(
    st.builds(Unique, st.none() | st.integers(0, 4)),
    st.builds(LatestWrite, st.integers(0, 5)),
    st.builds(Duplicate, st.integers(1, 5)),
    st.builds(Multihop, st.integers(1, 3), st.integers(0, 1), st.booleans()),
    st.builds(Multihop, st.integers(1, 2), st.integers(0, 1), st.booleans(), st.just(True)),
    st.just(Aggregation()),
)
ANY_CASE = TASKS.flatmap(cases)


def queries(batch: ExampleBatch) -> list[Span]:
    """The tokens of each query before its answer: QUERY f m."""
    return [Span(row - 2, row + 1) for row in batch.answer_rows]


def check_against_oracle(batch: ExampleBatch, vocabulary: Vocabulary) -> None:
    for i in range(len(batch)):
        for q, query in enumerate(queries(batch)):
            answer = oracle_answer(batch.tokens[i], batch.blocks, query, vocabulary)
            assert answer == batch.answers[i, q] == batch.tokens[i, query.stop]
        example = batch.example(i)
        assert example.family == oracle_family(example, vocabulary)


@pytest.mark.parametrize("name", CONDITIONS | WARM_UPS)
@given(data=st.data())
def test_every_condition_agrees_with_the_oracle(name: str, data: st.DataObject) -> None:
    condition = find_condition(name)
    case = data.draw(cases(condition.task))
    if condition.length == 1:
        batch = sample_condition(
            name, case.seed, 3, case.n_blocks, case.width, case.vocabulary, n_queries=case.n_queries
        )
        assert len(batch.blocks) == case.n_blocks
        check_against_oracle(batch, case.vocabulary)
    else:  # 12 blocks are as many as brute force likes, whatever the factor
        batch = sample_condition(name, case.seed, 1, 12 // condition.length, case.width, VOCABULARY, case.n_queries)
        assert len(batch.blocks) == 12
        check_against_oracle(batch, VOCABULARY)


@given(ANY_CASE)
def test_every_setting_of_a_task_agrees_with_the_oracle(case: Case) -> None:
    check_against_oracle(case.sample(), case.vocabulary)


@pytest.mark.parametrize("name", CONDITIONS | WARM_UPS)
@given(data=st.data())
def test_asked_queries_differ_and_the_rest_repeat_them(name: str, data: st.DataObject) -> None:
    case = data.draw(cases(find_condition(name).task))
    batch = case.sample(n_queries=9)
    for i in range(len(batch)):
        found = [read_query(batch.tokens[i], query, case.vocabulary) for query in queries(batch)]
        asked = [key for key, is_asked in zip(found, batch.asked[i].tolist(), strict=True) if is_asked]
        assert batch.asked[i, 0]
        assert len(set(asked)) == len(asked)
        assert set(found) == set(asked)


@given(ANY_CASE)
def test_the_evaluation_form_is_an_exact_prefix_of_the_training_form(case: Case) -> None:
    training, evaluation = case.sample(n_queries=8), case.sample(n_queries=1)
    assert torch.equal(training.tokens[:, : evaluation.tokens.shape[1]], evaluation.tokens)
    assert torch.equal(training.family, evaluation.family)
    # What the model reads stops right before the answer.
    assert torch.equal(training.first_query(), evaluation.tokens[:, :-1])
    assert torch.equal(evaluation.answers[:, 0], evaluation.tokens[:, -1])


@given(ANY_CASE)
def test_blocks_tile_the_context_and_tokens_are_in_the_vocabulary(case: Case) -> None:
    batch = case.sample()
    assert batch.blocks == tuple(Span(i * case.width, (i + 1) * case.width) for i in range(case.n_blocks))
    assert batch.tokens.shape == (3, case.n_blocks * case.width + 4 * case.n_queries)
    assert batch.tokens.dtype == torch.int64
    assert int(batch.tokens.min()) >= 0
    assert int(batch.tokens.max()) < case.vocabulary.size
    assert all((batch.tokens[:, span.start] == WRITE).all() for span in batch.blocks)
    assert batch.answers.shape == batch.asked.shape == (3, case.n_queries)
    assert batch.family.shape[::2] == (3, case.n_blocks)


@pytest.mark.parametrize("name", CONDITIONS)
@given(seed=st.integers(0, 2**62))
def test_the_seed_decides_the_batch(name: str, seed: int) -> None:
    def sample(seed: int) -> ExampleBatch:
        return sample_condition(name, seed, 8, 12, 5, Vocabulary(families=12, members=8, values=16), n_queries=4)

    first, again, other = sample(seed), sample(seed), sample(seed + 1)
    for field in ("tokens", "answers", "asked", "family"):
        assert torch.equal(getattr(first, field), getattr(again, field))
    assert not torch.equal(first.tokens, other.tokens)


def drawn(task: Task, seed: int, n_blocks: int = 12) -> list[tuple[list[Record | None], tuple[int, int], ExampleBatch]]:
    """Records and first query of 16 examples, with each example as a batch of one."""
    batch = Case(task, n_blocks, VOCABULARY, 5, 1, seed).sample(batch=16)
    return [
        (
            read_records(tokens, batch.blocks, VOCABULARY),
            read_query(tokens, queries(batch)[0], VOCABULARY),
            ExampleBatch(tokens[None], batch.blocks, batch.answer_rows, answers[None], asked[None], family[None]),
        )
        for tokens, answers, asked, family in zip(batch.tokens, batch.answers, batch.asked, batch.family, strict=True)
    ]


@pytest.mark.parametrize("stale", [0, 2, 4])
@given(seed=SEEDS)
def test_latest_write_has_exactly_the_obsolete_writes_asked_for(stale: int, seed: int) -> None:
    for records, key, batch in drawn(LatestWrite(stale), seed):
        *obsolete, current = [record.content for record in records if record.key == key]
        assert len(obsolete) == stale
        assert current == batch.answers[0, 0]
        assert current not in obsolete


@pytest.mark.parametrize("copies", [1, 2, 4])
@given(seed=SEEDS)
def test_duplicate_has_exactly_the_copies_asked_for(copies: int, seed: int) -> None:
    for records, key, batch in drawn(Duplicate(copies), seed):
        assert [record.content for record in records if record.key == key] == [int(batch.answers[0, 0])] * copies


@pytest.mark.parametrize("distractors", [0, 4, 7])
@given(seed=SEEDS)
def test_unique_has_exactly_the_family_distractors_asked_for(distractors: int, seed: int) -> None:
    for records, key, _ in drawn(Unique(distractors), seed):
        assert len({record.key for record in records}) == 12
        assert sum(record.key[0] == key[0] for record in records) == 1 + distractors


@pytest.mark.parametrize(("shared", "half"), [("family", 0), ("member", 1)])
@given(seed=SEEDS)
def test_warm_up_keys_share_one_half_and_differ_in_the_other(
    shared: Literal["family", "member"], half: int, seed: int
) -> None:
    for records, _, _ in drawn(Unique(shared=shared), seed, n_blocks=8):
        assert len({record.key[half] for record in records}) == 1
        assert len({record.key[1 - half] for record in records}) == 8


def chains(records: list[Record | None]) -> list[list[int]]:
    """Positions along each chain of pointers, from its first pointer to its value; keys must be distinct."""
    at = {record.key: i for i, record in enumerate(records)}
    targets = {record.content for record in records if isinstance(record.content, tuple)}
    heads = [i for i, r in enumerate(records) if isinstance(r.content, tuple) and r.key not in targets]
    found = []
    for head in heads:
        walk = [head]
        while isinstance(content := records[walk[-1]].content, tuple):
            walk.append(at[content])
        found.append(walk)
    return found


@given(seed=SEEDS)
def test_hardened_multihop_has_three_whole_chains_in_any_order(seed: int) -> None:
    orders = set()
    for records, key, batch in drawn(CONDITIONS["multihop_hardened"].task, seed):
        found = chains(records)
        assert [len(chain) for chain in found] == [3, 3, 3]
        assert len({i for chain in found for i in chain}) == 9
        (asked,) = [chain for chain in found if records[chain[0]].key == key]
        assert frozenset(asked) in batch.example(0).family
        orders |= {tuple(np.argsort(chain)) for chain in found}
    assert len(orders) > 1


@pytest.mark.parametrize("order", ["value_first", "pointers_first"])
@pytest.mark.parametrize("hops", [1, 2, 3])
@given(seed=SEEDS)
def test_multihop_has_the_hops_and_the_order_asked_for(hops: int, order: Order, seed: int) -> None:
    for records, key, batch in drawn(Multihop(hops, distractor_chains=1, order=order), seed):
        found = chains(records)
        assert [len(chain) for chain in found] == [hops + 1] * 2
        assert all(chain == sorted(chain, reverse=order == "value_first") for chain in found)
        (asked,) = [chain for chain in found if records[chain[0]].key == key]
        assert records[asked[-1]].content == int(batch.answers[0, 0])


@given(seed=SEEDS)
def test_redundant_multihop_has_two_disjoint_chains_from_one_key_to_one_value(seed: int) -> None:
    for records, key, batch in drawn(CONDITIONS["multihop_redundant"].task, seed):
        first, second = batch.example(0).family
        assert len(first) == len(second) == 3
        assert not first & second
        for chain in (first, second):
            inside = [records[i] for i in chain]
            assert sum(record.key == key for record in inside) == 1
            assert [r.content for r in inside if isinstance(r.content, int)] == [int(batch.answers[0, 0])]


def test_the_first_aggregation_count_is_uniform_over_one_to_five() -> None:
    batch = Case(Aggregation(), 12, VOCABULARY, 4, 1, seed=0).sample(batch=4_000)
    counts = Counter(VOCABULARY.name(token) for token in batch.answers[:, 0].tolist())
    assert set(counts) == {"#1", "#2", "#3", "#4", "#5"}
    # Six standard deviations of a binomial share of 0.2.
    assert all(abs(count / 4_000 - 0.2) < 0.04 for count in counts.values())


@pytest.mark.parametrize("name", CONDITIONS)
def test_evidence_stands_anywhere_in_the_context(name: str) -> None:
    task = CONDITIONS[name].task
    batch = Case(task, 12, VOCABULARY, 5, 1, seed=1).sample(batch=500)
    first = task.stale if isinstance(task, LatestWrite) else 0  # obsolete writes stand before the current one
    assert batch.family.any(dim=1).any(dim=0).tolist() == [i >= first for i in range(12)]


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=8), st.integers(1, 200))
def test_shares_add_up_and_are_proportional(weights: list[float], batch: int) -> None:
    mixture = {str(i): weight for i, weight in enumerate(weights)}
    counts = shares(mixture, batch)
    assert sum(counts.values()) == batch
    assert all(abs(counts[name] - batch * weight / sum(weights)) < 1 + 1e-6 for name, weight in mixture.items())


def test_the_largest_remainders_get_the_examples_left_over() -> None:
    assert shares({"a": 1.0, "b": 2.0, "c": 4.0}, 10) == {"a": 1, "b": 3, "c": 6}


@given(SEEDS.map(lambda seed: seed // 2), st.integers(5, 24), st.integers(1, 8))
def test_a_mixture_is_its_conditions_one_after_another(seed: int, batch: int, n_queries: int) -> None:
    mixture = {"unique": 2.0, "duplicate_m4": 1.0, "multihop_redundant": 1.0, "aggregation": 1.0}
    mixed = sample_mixture(mixture, seed, batch, 9, 5, VOCABULARY, n_queries)
    assert len(mixed) == batch
    start = 0
    for i, (name, count) in enumerate(shares(mixture, batch).items()):
        part = sample_condition(name, seed + i, count, 9, 5, VOCABULARY, n_queries)
        assert mixed.blocks == part.blocks
        assert mixed.answer_rows == part.answer_rows
        for field in ("tokens", "answers", "asked"):
            assert torch.equal(getattr(mixed, field)[start : start + count], getattr(part, field))
        for row in range(count):
            assert mixed.example(start + row).family == part.example(row).family
        start += count
