"""Training the text router: first what a block is worth by itself, then what it is worth for a question."""

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout

from keepset import seeds
from keepset.paper.natural.documents import AskedOf, Read, part
from keepset.routers.block import ReadModel
from keepset.routers.logistic import fit_logistic
from keepset.routers.text import QuestionFeatures, TextFeatures, TextRouter
from keepset.routers.words import PENALTY

TYPICAL = math.log(0.1 / 0.9)
"""Log odds of the blocks of a paper: one in ten is asked about."""
DIRECTIONS = 128
"""In which tokens are compared while that is learned."""
SAMPLE = 6_000
"""Tokens from which the directions are found, about."""
PARAGRAPH = 100.0
"""Words that count as one row: what is cut into sentences teaches no more than the same text in paragraphs."""


@dataclass(frozen=True)
class Training:
    """Chosen on the tuning papers and articles."""

    word_penalty: float = PENALTY
    heading_penalty: float = 100.0
    place_penalty: float = 300.0
    state_penalty: float = 3_000.0
    """Of the reader's states, which are many and standardised."""
    lexical_steps: int = 1_000
    lexical_rate: float = 2e-3
    batch: int = 32
    """Questions of one step."""
    epochs: int = 10
    """Over all questions whose documents the reader has read."""
    question_rate: float = 2e-3
    groups: int = 8
    """Of one step: questions that are asked of the same blocks, five or so of a paragraph and what follows it."""
    tokens_dropped: float = 0.2
    """Share of a token's features that a step does not see."""
    length_power: float = 0.5
    question_length_power: float = 0.0


@dataclass(frozen=True, eq=False)
class Lessons:
    """What a router learns from. Words need no reader, so they learn from documents that nobody has read."""

    unread: Sequence[Read]
    """Documents of which only the words are known."""
    questions: Sequence[tuple[Tensor, Tensor]]
    """(N, G) numbers and (N,) gold blocks of questions; the read documents' may be among them."""
    read: Sequence[Read]


def train_text_router(reads: ReadModel, layers: int, lessons: Lessons, training: Training) -> TextRouter:
    """A router for both regimes: words first, then what the reader adds to them."""
    with torch.random.fork_rng():
        torch.manual_seed(seeds.ROUTER_INIT.seed(0))
        router = TextRouter(reads, layers, "sentence", training.length_power, training.question_length_power)
        standardise(router, lessons)
        learn_words(router, [*lessons.read, *lessons.unread], training)
        learn_states(router, lessons.read, training)
        learn_words_in_common(router, lessons.questions, training)
        learn_answering(router, lessons.read, training)
    return router.eval()


def standardise(router: TextRouter, lessons: Lessons) -> None:
    """Centers and scales every feature by its spread over the training documents."""
    texts = [document.features for document in lessons.read]
    tokens = torch.cat([text.states[::7] for text in texts]).float()
    pooled, places = (torch.cat([getattr(text, name) for text in texts]) for name in ("pooled", "numbers"))
    found = [("", pooled), ("place_", places), ("token_", tokens)]
    if lessons.questions:
        found.append(("question_", torch.cat([numbers for numbers, _ in lessons.questions])))
    for name, values in found:
        getattr(router, f"{name}center").copy_(values.mean(0))
        getattr(router, f"{name}scale").copy_(values.std(0).clamp(min=1e-3))


def learn_words(router: TextRouter, documents: Sequence[Read], training: Training) -> None:
    """Somebody asks about a block, or nobody does: by words, headings and places."""
    text = together([unseen(document.features) for document in documents])
    penalties = {
        router.words.weight: training.word_penalty,
        router.headings.weight: training.heading_penalty,
        router.place.weight: training.place_penalty,
    }
    fit_wanted(lambda: router.said(text), documents, penalties, router.place.bias)


def learn_states(router: TextRouter, documents: Sequence[Read], training: Training) -> None:
    """The same by what the reader sees."""
    text = together([document.features for document in documents])
    penalties = {router.pooled.weight: training.state_penalty}
    fit_wanted(lambda: router.seen_alone(text), documents, penalties, router.pooled.bias)


class Wanting(Protocol):
    """A document cut into blocks of which some are wanted."""

    @property
    def words(self) -> list[int]: ...
    @property
    def wanted(self) -> Tensor: ...


def fit_wanted(
    odds: Callable[[], Tensor], documents: Sequence[Wanting], penalties: Mapping[Tensor, float], bias: Tensor
) -> None:
    """Blocks compete inside their document, so how much of it is asked about is given and not to be learned."""
    nn.init.constant_(bias, TYPICAL)
    wanted = torch.cat([document.wanted for document in documents])
    known = torch.cat([base_odds(document.wanted) - TYPICAL for document in documents])
    words = torch.tensor([float(n) for document in documents for n in document.words])
    fit_logistic(lambda: odds() + known, wanted, penalties, [bias], words / PARAGRAPH)


def base_odds(wanted: Tensor) -> Tensor:
    """(N,) log odds of any of a document's blocks."""
    return torch.logit((wanted.sum() + 0.5) / (len(wanted) + 1)).expand(len(wanted))


def learn_words_in_common(router: TextRouter, questions: Sequence[tuple[Tensor, Tensor]], training: Training) -> None:
    """Cross-entropy over the blocks a question is asked of; where several hold the answer, their mean."""
    if not questions:
        return
    optimizer = torch.optim.AdamW(router.lexical.parameters(), lr=training.lexical_rate, weight_decay=0.01)
    rng = random.Random(seeds.ROUTER_STREAM.seed(1))
    for _ in range(training.lexical_steps):
        loss = torch.zeros(())
        for numbers, gold in rng.sample(questions, min(training.batch, len(questions))):
            scores = router.lexical((numbers - router.question_center) / router.question_scale).squeeze(-1)
            loss = loss - scores.log_softmax(-1)[gold].mean()
        _step(optimizer, loss / training.batch)


def learn_answering(router: TextRouter, documents: Sequence[Read], training: Training) -> None:
    """The same loss, for what the reader's states add to words in common.

    Learned in the directions in which tokens differ most: there are too few questions for all of them, and it takes a
    fraction of the time. What is learned there is then written as if it had been learned in all.
    """
    asked = [document for document in documents if document.asked]
    if not asked:
        return
    basis = principal_directions(router, asked)
    narrow = narrowed_router(router, basis)
    groups = [(text, group) for document in asked for text, group in narrowed_groups(router, basis, document)]
    learned = [narrow.lexical, narrow.match, narrow.matters, narrow.seen]
    parameters = [parameter for module in learned for parameter in module.parameters()]
    steps = training.epochs * (len(groups) // training.groups + 1)
    optimizer = torch.optim.AdamW(parameters, lr=training.question_rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, steps)
    rng = random.Random(seeds.ROUTER_STREAM.seed(0))
    for _ in range(steps):
        losses = []
        for text, group in rng.sample(groups, min(training.groups, len(groups))):
            tokens = narrow.compared(dropout(text.states, training.tokens_dropped))
            for gold, question in group:
                losses.append(-narrow.weighed(tokens, text.block_of, question).log_softmax(-1)[gold].mean())
        _step(optimizer, torch.stack(losses).mean())
        schedule.step()
    router.lexical.load_state_dict(narrow.lexical.state_dict())
    router.seen.load_state_dict(narrow.seen.state_dict())
    with torch.no_grad():
        router.match.weight.copy_(narrow.match.weight @ basis.T)
        router.matters.weight.copy_(narrow.matters.weight @ basis.T)
        router.matters.bias.copy_(narrow.matters.bias)


def principal_directions(router: TextRouter, documents: Sequence[Read]) -> Tensor:
    """(D, P) in which the standardised states of tokens differ most."""
    tokens = torch.cat([document.features.states[::29] for document in documents])
    sample = tokens[:: max(1, len(tokens) // SAMPLE)]
    _, _, directions = torch.linalg.svd(standardised(router, sample), full_matrices=False)
    found: Tensor = directions[:DIRECTIONS].T
    return found


def standardised(router: TextRouter, states: Tensor) -> Tensor:
    return (states.float() - router.token_center) / router.token_scale


def narrowed_router(router: TextRouter, basis: Tensor) -> TextRouter:
    """One that reads states in the directions of ``basis``; it knows of words in common what ``router`` knows."""
    reads = router.reads.model_copy(update={"hidden_size": basis.shape[1]})
    narrow = TextRouter(reads, router.layers, router.blocks, router.length_power, router.question_length_power)
    narrow.lexical.load_state_dict(router.lexical.state_dict())
    narrow.question_center.copy_(router.question_center)
    narrow.question_scale.copy_(router.question_scale)
    return narrow


def narrowed_groups(
    router: TextRouter, basis: Tensor, document: Read
) -> Iterator[tuple[TextFeatures, list[tuple[Tensor, QuestionFeatures]]]]:
    """Some blocks and the questions asked of them, gold blocks first; states in the directions of ``basis``."""
    text = replace(document.features, states=standardised(router, document.features.states) @ basis)
    for blocks, asked in by_blocks(document).items():
        yield (
            part(text, blocks),
            [
                (one.gold, replace(one.features, states=standardised(router, one.features.states) @ basis))
                for one in asked
            ],
        )


def by_blocks(document: Read) -> dict[range, list[AskedOf]]:
    """The questions of a document, those asked of the same blocks together."""
    found: dict[range, list[AskedOf]] = {}
    for asked in document.asked:
        found.setdefault(asked.blocks, []).append(asked)
    return found


def unseen(text: TextFeatures) -> TextFeatures:
    """Without what the reader sees."""
    return replace(text, pooled=torch.zeros(len(text.pooled), 0), states=torch.zeros(0, 0))


def _step(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def together(texts: Sequence[TextFeatures]) -> TextFeatures:
    """Several texts as one; without tokens, which only questions need."""

    def starts(joined: Sequence[Tensor], each: Sequence[Tensor]) -> Tensor:
        shifts = torch.tensor([0, *(len(words) for words in joined[:-1])]).cumsum(0)
        return torch.cat([own + shift for own, shift in zip(each, shifts, strict=True)])

    return TextFeatures(
        pooled=torch.cat([text.pooled for text in texts]),
        numbers=torch.cat([text.numbers for text in texts]),
        words=torch.cat([text.words for text in texts]),
        word_starts=starts([text.words for text in texts], [text.word_starts for text in texts]),
        headings=torch.cat([text.headings for text in texts]),
        heading_starts=starts([text.headings for text in texts], [text.heading_starts for text in texts]),
        states=torch.zeros(0, texts[0].states.shape[-1]),
        block_of=torch.zeros(0, dtype=torch.long),
    )
