"""Training the text router: first what a block is worth by itself, then what it is worth for a question."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, dropout

from keepset import seeds
from keepset.paper.natural.documents import Read, part
from keepset.routers.block import ReadModel
from keepset.routers.text import TextFeatures, TextRouter


@dataclass(frozen=True)
class Training:
    """Chosen on the tuning papers and articles."""

    word_steps: int = 100
    word_rate: float = 5e-3
    word_decay: float = 0.1
    """Of the weights of words and headings."""
    steps: int = 100
    """Over all blocks at once, without a question."""
    rate: float = 3e-4
    decay: float = 1.0
    dropped: float = 0.5
    """Share of a block's features that a step does not see."""
    lexical_steps: int = 1_000
    lexical_rate: float = 2e-3
    epochs: int = 4
    """Over all questions whose documents the reader has read."""
    question_rate: float = 1e-3
    batch: int = 32
    """Questions of one step."""
    length_power: float = 0.5
    question_length_power: float = 0.0


@dataclass(frozen=True, eq=False)
class Lessons:
    """What a router learns from. Words need no reader, so they learn from documents that nobody has read."""

    unread: Sequence[tuple[TextFeatures, Tensor]]
    """Blocks and which of them are wanted; other documents than the read ones, whose words then say nothing yet."""
    questions: Sequence[tuple[Tensor, Tensor]]
    """(N, G) numbers and (N,) gold blocks of questions; the read documents' may be among them."""
    read: Sequence[Read]


def train_text_router(reads: ReadModel, layers: int, lessons: Lessons, training: Training, seed: int = 0) -> TextRouter:
    """A router for both regimes: words first, then what the reader adds to them."""
    with torch.random.fork_rng():
        torch.manual_seed(seeds.ROUTER_INIT.seed(seed))
        router = TextRouter(reads, layers, "sentence", training.length_power, training.question_length_power)
        standardise(router, lessons)
        learn_words(router, lessons.unread, training)
        learn_worth(router, lessons.read, training)
        learn_words_in_common(router, lessons.questions, training)
        learn_answering(router, lessons.read, training, seed)
    return router.eval()


def standardise(router: TextRouter, lessons: Lessons) -> None:
    """Centers and scales every feature by its spread over the training documents."""
    texts = [document.features for document in lessons.read]
    tokens = torch.cat([text.states[::7] for text in texts]).float()
    rows = torch.cat([torch.cat([text.pooled, text.numbers], dim=-1) for text in texts])
    found = [("", rows), ("token_", tokens)]
    if lessons.questions:
        found.append(("question_", torch.cat([numbers for numbers, _ in lessons.questions])))
    for name, values in found:
        getattr(router, f"{name}center").copy_(values.mean(0))
        getattr(router, f"{name}scale").copy_(values.std(0).clamp(min=1e-3))


def learn_words(router: TextRouter, unread: Sequence[tuple[TextFeatures, Tensor]], training: Training) -> None:
    """Logistic regression on words, headings and places."""
    if not unread:
        return
    text = together([features for features, _ in unread])
    wanted = torch.cat([found for _, found in unread]).float()
    parameters = [router.words.weight, router.headings.weight, *router.place.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=training.word_rate, weight_decay=training.word_decay)
    for _ in range(training.word_steps):
        loss = binary_cross_entropy_with_logits(router.said(text).squeeze(-1), wanted)
        _step(optimizer, loss)


def learn_worth(router: TextRouter, documents: Sequence[Read], training: Training) -> None:
    """Binary cross-entropy over all blocks of all documents at once: somebody asks about it, or nobody does."""
    text = together([document.features for document in documents])
    wanted = torch.cat([document.wanted for document in documents]).float()
    parameters = [*router.summary.parameters(), *router.worth.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=training.rate, weight_decay=training.decay)
    for _ in range(training.steps):
        seen = replace(text, pooled=_blinded(text.pooled, router.center, training.dropped))
        _step(optimizer, binary_cross_entropy_with_logits(router(seen), wanted))


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


def learn_answering(router: TextRouter, documents: Sequence[Read], training: Training, seed: int) -> None:
    """The same loss, for what the reader's states add to words in common."""
    with torch.no_grad():
        worths = [router(document.features) for document in documents]
    pairs = zip(documents, worths, strict=True)
    rows = [(document, worth, asked) for document, worth in pairs for asked in document.asked]
    if not rows:
        return
    learned = [router.match, router.matters, router.seen]
    parameters = [parameter for module in learned for parameter in module.parameters()]
    steps = training.epochs * (len(rows) // training.batch + 1)
    optimizer = torch.optim.AdamW(parameters, lr=training.question_rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, steps)
    rng = random.Random(seeds.ROUTER_STREAM.seed(seed))
    for _ in range(steps):
        loss = torch.zeros(())
        for document, worth, asked in rng.sample(rows, min(training.batch, len(rows))):
            inside = worth[asked.blocks.start : asked.blocks.stop]
            scores = router.answering(part(document.features, asked.blocks), inside, asked.features)
            loss = loss - scores.log_softmax(-1)[asked.gold].mean()
        _step(optimizer, loss / training.batch)
        schedule.step()


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


def _blinded(pooled: Tensor, center: Tensor, share: float) -> Tensor:
    """Some features at their mean, where they say nothing."""
    middle = center[: pooled.shape[-1]]
    return dropout(pooled - middle, share) * (1 - share) + middle
