"""Record routers read records and question alone, and learn what they are told."""

from dataclasses import replace

import torch
from torch.nn.functional import pad

from keepset.blocks import Example, Span
from keepset.paper.pretrained.lookup import asking, in_order, train_lookup
from keepset.paper.pretrained.routers import (
    KINDS,
    MixerRouter,
    SpanRouter,
    nearness,
    router_tokens,
    score_records,
    train_record_routers,
    training_steps,
)
from keepset.paper.pretrained.settings import LEAST_STEPS, SETTINGS
from keepset.paper.testbed.tasks.record_chains import ChainExample

(SMOKE,) = SETTINGS["smoke"]
VOCABULARY = 60


def example(rng: torch.Generator, records: int = 6) -> Example:
    """Records of three tokens, the first of which is a name of its own; the question names one of them."""
    names = 10 + torch.randperm(40, generator=rng)[:records]
    asked = int(torch.randint(records, (1,), generator=rng))
    tokens = torch.stack([names, torch.full((records,), 3), torch.full((records,), 4)], dim=1).flatten()
    tokens = torch.cat([tokens, torch.tensor([5, int(names[asked]), 6])])
    blocks = tuple(Span(3 * i, 3 * i + 3) for i in range(records))
    return Example(tokens, blocks, Span(3 * records, len(tokens)), (7,), frozenset({frozenset({asked})}))


def examples(seed: int, n: int) -> list[Example]:
    rng = torch.Generator().manual_seed(seed)
    return [example(rng) for _ in range(n)]


def target(found: list[Example]) -> torch.Tensor:
    sets = torch.zeros(len(found), 1, 6, dtype=torch.bool)
    for i, each in enumerate(found):
        sets[i, 0, sorted(each.evidence)] = True
    return sets


def test_what_a_router_reads() -> None:
    (one,) = examples(0, 1)
    tokens = router_tokens([replace(one, blocks=(Span(0, 2), *one.blocks[1:]))])
    assert tokens.shape == (1, 7, 3)
    assert tokens[0, 0].tolist() == [*(one.tokens[:2] + 1).tolist(), 0], "zero where a record is shorter"
    assert tokens[0, 2].tolist() == (one.tokens[6:9] + 1).tolist()
    assert tokens[0, -1].tolist() == (one.tokens[18:] + 1).tolist()


def test_padding_changes_nothing() -> None:
    found = examples(1, 3)
    for kind in KINDS.values():
        torch.manual_seed(0)
        router = kind(VOCABULARY)
        tokens = router_tokens(found)
        torch.testing.assert_close(router(tokens), router(pad(tokens, (0, 6))))


def test_a_record_that_shares_a_rare_word_is_nearest_before_training() -> None:
    torch.manual_seed(0)
    router = SpanRouter(VOCABULARY)
    found = examples(2, 50)
    x = router.summaries(router_tokens(found))
    first = nearness(x[:, :-1], x[:, -1:])[..., 0].argmax(-1)
    right = sum(int(i) in each.evidence for i, each in zip(first, found, strict=True))
    assert right >= 40


def test_a_span_router_learns_which_record_is_asked_for() -> None:
    lessons, asked = examples(3, 256), examples(4, 60)
    router = train_record_routers("span", VOCABULARY, router_tokens(lessons), {"causal": target(lessons)})
    scores = score_records(router["causal"], asked)
    kept = sum(int(row.argmax()) in each.evidence for row, each in zip(scores, asked, strict=True))
    assert kept >= 54


def test_an_imitation_router_learns_a_distribution() -> None:
    lessons = examples(5, 32)
    first = torch.zeros(32, 6)
    first[:, 0] = 1.0
    for kind in KINDS:
        router = train_record_routers(kind, VOCABULARY, router_tokens(lessons), {"sink": first}, least_steps=300)[
            "sink"
        ]
        assert all(int(row.argmax()) == 0 for row in score_records(router, lessons[:10])), kind


def test_tokens_of_no_lesson_stay_as_they_were_drawn() -> None:
    lessons = examples(5, 32)
    tokens = router_tokens(lessons)
    router = train_record_routers("span", VOCABULARY, tokens, {"causal": target(lessons)}, 2)["causal"]
    (fresh,) = train_record_routers("span", VOCABULARY, tokens, {"causal": target(lessons)}, 0).values()
    before, after = (each.state_dict()["table.weight"] for each in (fresh, router))
    moved = (before != after).any(-1).nonzero().flatten()
    assert len(after) == VOCABULARY + 1
    assert set(moved.tolist()) == set(tokens.unique().tolist()) - {0}


def test_fewer_lessons_than_the_papers_are_read_more_often() -> None:
    assert training_steps(2_000, LEAST_STEPS) == training_steps(100, LEAST_STEPS) == LEAST_STEPS == 15 * 31
    assert training_steps(20_000, LEAST_STEPS) == 15 * 312


def test_only_the_mixer_cares_where_other_records_stand() -> None:
    tokens = router_tokens(examples(6, 1))
    swapped = tokens.clone()
    swapped[0, [3, 4]] = tokens[0, [4, 3]]
    for kind, cares in ((SpanRouter, False), (MixerRouter, True)):
        torch.manual_seed(0)
        router = kind(VOCABULARY)
        assert torch.allclose(router(tokens)[0, 0], router(swapped)[0, 0], atol=1e-5) != cares


def chain(rng: torch.Generator) -> ChainExample:
    """Three pointers (name, 3, target) and three values (target, 4, 8); the question names a pointer."""
    names = (10 + torch.randperm(40, generator=rng)[:6]).tolist()
    records = [[names[i], 3, names[3 + i]] for i in range(3)] + [[names[3 + i], 4, 8] for i in range(3)]
    order = torch.randperm(6, generator=rng).tolist()
    tokens = torch.tensor([token for i in order for token in records[i]] + [5, names[0], 6])
    pointer, value = order.index(0), order.index(3)
    return ChainExample(
        tokens,
        tuple(Span(3 * i, 3 * i + 3) for i in range(6)),
        Span(18, 21),
        (7,),
        frozenset({frozenset({pointer, value})}),
        pointer=pointer,
        value=value,
    )


def test_looking_twice_finds_what_the_question_does_not_name() -> None:
    rng = torch.Generator().manual_seed(7)
    lessons, asked = [chain(rng) for _ in range(320)], [chain(rng) for _ in range(60)]
    pointers, values = (torch.tensor([getattr(each, name) for each in lessons]) for name in ("pointer", "value"))
    lookup = train_lookup(replace(SMOKE, least_steps=LEAST_STEPS), lessons, pointers, values)
    kept = [lookup.keep(each) for each in asked]
    assert all(len(keep) == 2 for keep in kept)
    assert sum(each.evidence == keep for each, keep in zip(asked, kept, strict=True)) >= 45


def test_the_second_pass_reads_the_pointer_instead_of_the_question() -> None:
    rng = torch.Generator().manual_seed(8)
    found = [chain(rng) for _ in range(3)]
    tokens = router_tokens(found)
    pointers = torch.tensor([each.pointer for each in found])
    asked = asking(tokens, pointers)
    for i, each in enumerate(found):
        assert torch.equal(asked[i, -1], tokens[i, each.pointer])
    assert torch.equal(asked[:, :-1], tokens[:, :-1])


def test_the_pointer_is_told_by_the_questions_words() -> None:
    rng = torch.Generator().manual_seed(9)
    for _ in range(20):
        each = chain(rng)
        assert in_order(each, sorted(each.evidence)) == [each.pointer, each.value]
