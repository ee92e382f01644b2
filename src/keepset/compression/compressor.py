"""Compressing a text: cut it into sentences, read it once, score the sentences, keep the best that fit.

compressor = Compressor()                                    # the shipped router and its reader, loaded once
compressor.compress(text, budget=0.25)
compressor.compress_together([one, other], budget=0.25, question="Who pays?")       # the texts share the room
"""

from collections.abc import Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import overload

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from keepset.blocks import Span
from keepset.compression.compressed import Compressed, compressed
from keepset.models.bundled import BUNDLED
from keepset.models.loading import load_model
from keepset.pruning.budget import Budget, select
from keepset.routers.reading import read_states, sink_token
from keepset.routers.text import TextRouter, load_text_router, question_features, text_features
from keepset.text.lexical import Passage, passages
from keepset.text.prompt import Characters, check_characters, check_text, encode, token_spans
from keepset.text.split import split_blocks

SHIPPED = Path(__file__).parent / "router"
"""The router in the package; its README.md says what it was trained on and what it is worth."""

Texts = list[str] | tuple[str, ...]
TextBudget = Budget | float | int
"""A share of the tokens (0.25), or a number of tokens (500)."""


class Compressor:
    """A text router and its reader. Loading takes seconds, so one is made and used for many texts."""

    def __init__(
        self, router: TextRouter | str | Path = SHIPPED, reader: str | None = None, device: torch.device | str = "cpu"
    ) -> None:
        """``reader`` says where the router's reader is, when it is not the bundled model of that name."""
        self.router = router if isinstance(router, TextRouter) else load_text_router(Path(router))
        self._reader = reader
        self._device = device

    def compress(self, text: str, budget: TextBudget, question: str | None = None) -> Compressed:
        """The sentences worth most, before anybody has asked or for ``question``; at least one."""
        return self.compress_together([text], budget, question)[0]

    def compress_together(
        self, texts: Sequence[str], budget: TextBudget, question: str | None = None
    ) -> list[Compressed]:
        """Texts that share the room: one may be kept whole and another not at all."""
        allowed = text_budget(budget)
        check_texts(texts, question)
        scores, spans, places = self._score(texts, question)
        lengths = [len(span) for of_text in spans for span in of_text]
        kept = select(scores, lengths, allowed, frozenset()) or {int(scores.argmax())}
        results, first = [], 0
        for text, of_text, there in zip(texts, spans, places, strict=True):
            chosen = [i for i in range(len(of_text)) if first + i in kept]
            after = sum(len(of_text[i]) for i in chosen)
            results.append(compressed(text, [there[i] for i in chosen], sum(map(len, of_text)), after))
            first += len(of_text)
        return results

    def score(self, text: str, question: str | None = None) -> tuple[list[Characters], Tensor]:
        """The sentences of ``text`` as character spans, and (N,) what each is worth; higher is kept first."""
        check_texts([text], question)
        scores, _, (places,) = self._score([text], question)
        return places, scores

    @cached_property
    def loaded(self) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
        """The reader, with only the layers that are read."""
        reads = self.router.reads
        name = self._reader or reads.name
        if self._reader is None and name not in BUNDLED:
            raise ValueError(
                f"reader: expected where the model {reads} is, which is none of the bundled ones, got none"
            )
        model, tokenizer = load_model(name, dtype=torch.float32, device=self._device)
        reads.check(model)
        return model, tokenizer

    @torch.no_grad()
    def _score(
        self, texts: Sequence[str], question: str | None
    ) -> tuple[Tensor, list[list[Span]], list[list[Characters]]]:
        """(N,) over the sentences of all texts; their tokens and characters, text by text."""
        model, tokenizer = self.loaded
        sink = sink_token(tokenizer)
        states: list[Tensor] = []
        shifted: list[Span] = []
        said: list[Passage] = []
        spans: list[list[Span]] = []
        places: list[list[Characters]] = []
        read = 0
        for text in texts:
            tokens, offsets = encode(tokenizer, text)
            there, found = cut(text, offsets, self.router.blocks)
            spans.append(found)
            places.append(there)
            if found:
                states.append(read_states(model, tokens, self.router.layers, sink))
            shifted += [Span(read + span.start, read + span.stop) for span in found]
            said += passages(text, there)
            read += len(tokens) if found else 0
        joined = torch.cat(states)
        features = text_features(joined, shifted, said)
        lengths = torch.tensor([float(len(span)) for span in shifted])
        if question is None:
            return logsigmoid(self.router(features)) - self.router.length_power * lengths.log(), spans, places
        asked = read_states(model, encode(tokenizer, question)[0], self.router.layers, sink)
        answers = self.router.answering(features, question_features(asked, question, said))
        return answers - self.router.question_length_power * lengths.log(), spans, places


@overload
def compress(text: str, budget: TextBudget, question: str | None = None) -> Compressed: ...
@overload
def compress(text: Texts, budget: TextBudget, question: str | None = None) -> list[Compressed]: ...
def compress(text: str | Texts, budget: TextBudget, question: str | None = None) -> Compressed | list[Compressed]:
    """The part of a text that is worth keeping, before anybody has asked or for ``question``.

    ``budget`` is a share of the tokens (0.25) or a number of tokens (500). Texts in a list are compressed together:
    they share the budget. Uses the router in the package; the first call loads its reader.
    """
    compressor = default_compressor()
    if isinstance(text, str):
        return compressor.compress(text, budget, question)
    return compressor.compress_together(text, budget, question)


@lru_cache(maxsize=1)
def default_compressor() -> Compressor:
    """The shipped router, loaded once in a process."""
    return Compressor()


def text_budget(budget: TextBudget) -> Budget:
    """A bare float is a share of the tokens, a bare int a number of tokens."""
    if isinstance(budget, Budget):
        return budget
    if isinstance(budget, bool) or not isinstance(budget, int | float):
        raise ValueError(f"budget: expected a share of the tokens (0.25) or a number of tokens (500), got {budget!r}")
    return Budget.tokens(budget) if isinstance(budget, int) else Budget.share_of_tokens(budget)


def parse_text_budget(written: str) -> Budget:
    """As a command gets it: ``0.25`` or ``500``."""
    try:
        return text_budget(int(written) if written.isdigit() else float(written))
    except ValueError as error:
        if str(error).startswith("budget:"):
            raise
        raise ValueError(
            f"budget: expected a share of the tokens (0.25) or a number of tokens (500), got {written!r}"
        ) from error


def check_texts(texts: Sequence[str], question: str | None) -> None:
    if isinstance(texts, str) or not isinstance(texts, Sequence):
        raise ValueError(f"texts: expected a list of texts, got {type(texts).__name__}")
    for text in texts:
        check_characters("text", text)
    if not any(text.strip() for text in texts):
        raise ValueError(f"text: expected some text to compress, got {'only white space' if texts else 'none'}")
    if question is not None:
        check_text("question", question)


def cut(text: str, offsets: Sequence[Characters], blocks: str) -> tuple[list[Characters], list[Span]]:
    """The blocks of a text in characters and in tokens; one without a token of its own joins the one before it."""
    places: list[Characters] = []
    spans: list[Span] = []
    found = split_blocks(text, blocks)
    for place, span in zip(found, token_spans(offsets, found, len(offsets)) if found else (), strict=True):
        if len(span):
            places.append(place)
            spans.append(span)
        elif places:
            places[-1] = (places[-1][0], place[1])
    return places, spans
