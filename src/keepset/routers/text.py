"""The text router: scores the blocks of a text with and without a question, for any engine behind it.

    without a question    mean and maximum of the reader's states over the block; words, heading and place
    with a question       words in common, and late interaction: for every token of the question its best match in the
                          block, weighed by how much the token matters

The reader is small and fixed, and need not be the model that answers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize, softplus

from keepset.blocks import Span
from keepset.files import Frozen
from keepset.routers.block import ReadModel
from keepset.routers.network import SavedNetwork, check_weights, load_network, read_config
from keepset.routers.trained_blocks import Rule
from keepset.routers.words import word_bag
from keepset.text.lexical import (
    BUCKETS,
    PLACE_NUMBERS,
    QUESTION_NUMBERS,
    Passage,
    place_numbers,
    question_numbers,
)

SAID = 0.5
"""What words, heading and place weigh beside the reader's states where nobody has asked."""
MATCH = 64
"""Width in which tokens of question and block are compared."""
HIDDEN = 32
"""Width of the networks that weigh words in common, and those beside matches."""
MATCHES_SCALE = 10.0
"""Cosines lie close together; the network sees them spread out."""


@dataclass(frozen=True, eq=False)
class TextFeatures:
    """The blocks of a text as the router reads them."""

    pooled: Tensor
    """(N, 2D) mean and maximum of the reader's states over each block."""
    numbers: Tensor
    """(N, F) as ``place_numbers`` gives them."""
    words: Tensor
    """(M,) buckets of the different words of all blocks, one block after the other."""
    word_starts: Tensor
    """(N,) where the words of a block begin."""
    headings: Tensor
    """(M',) likewise, of the headings above."""
    heading_starts: Tensor
    states: Tensor
    """(T, D) the reader's, of the tokens of all blocks."""
    block_of: Tensor
    """(T,) number of the block a token belongs to."""


@dataclass(frozen=True, eq=False)
class QuestionFeatures:
    """A question beside the blocks of a text."""

    states: Tensor
    """(Q, D) the reader's, of the question alone."""
    numbers: Tensor
    """(N, G) as ``question_numbers`` gives them."""


def text_features(states: Tensor, spans: Sequence[Span], passages: Sequence[Passage]) -> TextFeatures:
    """``states`` (T, D) of a whole text; ``spans`` the tokens of its blocks, ``passages`` what they say."""
    blocks = [states[span.start : span.stop] for span in spans]
    return TextFeatures(
        torch.stack([torch.cat([block.float().mean(0), block.float().amax(0)]) for block in blocks]),
        torch.tensor([place_numbers(passage) for passage in passages]),
        *word_bag([passage.text for passage in passages]),
        *word_bag([passage.heading for passage in passages]),
        torch.cat(blocks),
        torch.repeat_interleave(torch.arange(len(spans)), torch.tensor([len(span) for span in spans])),
    )


def question_features(states: Tensor, question: str, passages: Sequence[Passage]) -> QuestionFeatures:
    """``states`` (Q, D) of the question alone; ``passages`` the blocks of the text it is asked of."""
    return QuestionFeatures(states, torch.tensor(question_numbers(question, passages)))


class SavedTextRouter(Frozen):
    """``config.json`` beside the weights."""

    router: Literal["text"]
    reads: ReadModel
    """The reader."""
    layers: int
    """How many of its layers run."""
    blocks: Rule
    """How texts are cut."""
    length_power: float
    """A block's worth is divided by this power of its length before blocks compete for room."""
    question_length_power: float
    """The same with a question."""
    weights_sha256: str
    """Hash of ``model.safetensors``."""


class TextRouter(
    SavedNetwork, coders={ReadModel: (ReadModel.model_dump, ReadModel.model_validate)}, library_name="keepset"
):
    """Both regimes: what a block is worth by itself, and what it is worth for a question."""

    center: Tensor
    scale: Tensor
    place_center: Tensor
    place_scale: Tensor
    token_center: Tensor
    token_scale: Tensor
    question_center: Tensor
    question_scale: Tensor

    def __init__(
        self, reads: ReadModel, layers: int, blocks: Rule, length_power: float, question_length_power: float
    ) -> None:
        super().__init__()
        self.reads = reads
        self.layers = layers
        self.blocks = blocks
        self.length_power = length_power
        self.question_length_power = question_length_power
        width = reads.hidden_size
        for name, size in (
            ("", 2 * width),
            ("place_", PLACE_NUMBERS),
            ("token_", width),
            ("question_", QUESTION_NUMBERS),
        ):
            self.register_buffer(f"{name}center", torch.zeros(size))
            self.register_buffer(f"{name}scale", torch.ones(size))
        self.words = nn.EmbeddingBag.from_pretrained(torch.zeros(BUCKETS, 1), freeze=False, mode="sum")
        self.headings = nn.EmbeddingBag.from_pretrained(torch.zeros(BUCKETS, 1), freeze=False, mode="sum")
        self.place = nn.Linear(PLACE_NUMBERS, 1)
        self.pooled = nn.Linear(2 * width, 1)
        self.match = nn.Linear(width, MATCH, bias=False)
        self.matters = nn.Linear(width, 1)
        self.lexical = nn.Sequential(nn.Linear(QUESTION_NUMBERS, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 1))
        added = nn.Linear(HIDDEN, 1)
        self.seen = nn.Sequential(nn.Linear(QUESTION_NUMBERS + 2, HIDDEN), nn.ReLU(), added)
        nn.init.orthogonal_(self.match.weight)
        for linear in (self.place, self.pooled, self.matters, added):
            nn.init.zeros_(linear.weight)

    def said(self, text: TextFeatures) -> Tensor:
        """(N,) log odds by words, heading and place alone; needs no reader."""
        words = self.words(text.words, text.word_starts) + self.headings(text.headings, text.heading_starts)
        odds: Tensor = words + self.place((text.numbers - self.place_center) / self.place_scale)
        return odds.squeeze(-1)

    def seen_alone(self, text: TextFeatures) -> Tensor:
        """(N,) log odds by the reader's states alone."""
        odds: Tensor = self.pooled((text.pooled - self.center) / self.scale)
        return odds.squeeze(-1)

    def forward(self, text: TextFeatures) -> Tensor:
        """(N,) log odds that somebody will ask about the block."""
        return SAID * self.said(text) + (1 - SAID) * self.seen_alone(text)

    def compared(self, states: Tensor) -> Tensor:
        """(T, M) tokens as those of question and block are compared: of length 1."""
        return normalize(self.match((states.float() - self.token_center) / self.token_scale), dim=-1)

    def answering(self, text: TextFeatures, asked: QuestionFeatures) -> Tensor:
        """(N,) how well a block answers the question."""
        return self.weighed(self.compared(text.states), text.block_of, asked)

    def weighed(self, block: Tensor, block_of: Tensor, asked: QuestionFeatures) -> Tensor:
        """``answering`` where the tokens of the blocks, (T, M), are ``compared`` already: once for many questions."""
        standard = (asked.states.float() - self.token_center) / self.token_scale  # (Q, D)
        near = self.compared(asked.states) @ block.T  # (Q, T)
        best = near.new_full((len(near), len(asked.numbers)), -1.0).scatter_reduce(
            1, block_of.expand(len(near), -1), near, "amax"
        )  # (Q, N)
        weight = softplus(self.matters(standard))  # (Q, 1)
        matched = (best * weight).sum(0) / weight.sum()  # (N,)
        ahead = matched - matched.mean()
        numbers = (asked.numbers - self.question_center) / self.question_scale
        x = torch.cat([numbers, MATCHES_SCALE * torch.stack([matched, ahead], -1)], dim=-1)
        scores: Tensor = (self.lexical(numbers) + self.seen(x)).squeeze(-1)
        return scores

    @classmethod
    def _from_pretrained(cls, *, model_id: str, **kwargs: Any) -> "TextRouter":
        if Path(model_id).is_dir():
            read_config(Path(model_id), SavedTextRouter)
        return cast(TextRouter, super()._from_pretrained(model_id=model_id, **kwargs))

    def config(self, weights_sha256: str) -> SavedTextRouter:
        return SavedTextRouter(
            router="text",
            reads=self.reads,
            layers=self.layers,
            blocks=self.blocks,
            length_power=self.length_power,
            question_length_power=self.question_length_power,
            weights_sha256=weights_sha256,
        )


def load_text_router(folder: Path) -> TextRouter:
    """The router saved in ``folder``."""
    check_weights(folder, read_config(folder, SavedTextRouter).weights_sha256)
    return load_network(folder, TextRouter).eval()
