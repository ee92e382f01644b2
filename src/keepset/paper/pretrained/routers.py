"""Record routers: score the records of a context from its tokens alone, never from the model.

    input    (B, N + 1, W) token ids plus one, zero where a record is shorter; the question is the last row
    span     [mean of the record, mean of the question, place, their cosine] -> two layers -> score
    mixer    two transformer layers over the summaries of all records and the question -> score

The cosine is what finds a rare name: records that share a token with the question are nearer to it before anything has
been learned.
"""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity
from transformers import PreTrainedTokenizerBase

from keepset import seeds
from keepset.blocks import Example, Span
from keepset.paper.pretrained.settings import EPOCHS, LEAST_STEPS, RUN
from keepset.paper.testbed.routers.router import relative_positions
from keepset.routers.layer import LAYERS, WIDTH, RouterLayer
from keepset.routers.losses import KL, Coverage, Loss
from keepset.routers.streams import BATCH, table_stream
from keepset.routers.training import train_routers
from keepset.text.bm25 import bm25
from keepset.text.example import TextExample

HIDDEN = 128
"""Width of the scorer's hidden layer."""
SPREAD = 10.0
"""Factor on the cosine; in a look at one router each, 3 and 30 did about as well."""

Kind = Literal["span", "mixer"]


class RecordRouter(nn.Module):
    """What both kinds share: an own table of the model's tokens, and means over records and question."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.table = nn.Embedding(vocabulary + 1, WIDTH)

    def summaries(self, tokens: Tensor) -> Tensor:
        """(B, N + 1, W) -> (B, N + 1, D)"""
        there = (tokens > 0).unsqueeze(-1)
        summed: Tensor = (self.table(tokens) * there).sum(-2)
        return summed / there.sum(-2).clamp(min=1)


class SpanRouter(RecordRouter):
    """Every record on its own."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__(vocabulary)
        self.hidden = nn.Linear(2 * WIDTH + 2, HIDDEN)
        self.score = nn.Linear(HIDDEN, 1)

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, N + 1, W) -> (B, N)"""
        x = self.summaries(tokens)
        records, question = x[:, :-1], x[:, -1:].expand(-1, x.shape[1] - 1, -1)
        place = relative_positions(records.shape[1], tokens.device).expand(len(tokens), -1, -1)
        near = nearness(records, question)
        scores: Tensor = self.score(torch.relu(self.hidden(torch.cat([records, question, place, near], dim=-1))))
        return scores.squeeze(-1)


class MixerRouter(RecordRouter):
    """Records look at each other and at the question."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__(vocabulary)
        self.place = nn.Linear(1, WIDTH)
        self.is_question = nn.Parameter(torch.randn(1, WIDTH))
        self.layers = nn.ModuleList(RouterLayer() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.hidden = nn.Linear(WIDTH + 1, HIDDEN)
        self.score = nn.Linear(HIDDEN, 1)

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, N + 1, W) -> (B, N)"""
        x = self.summaries(tokens)
        near = nearness(x[:, :-1], x[:, -1:])
        place = self.place(relative_positions(x.shape[1] - 1, tokens.device)).expand(len(tokens), -1, -1)
        x = torch.cat([x[:, :-1] + place, x[:, -1:] + self.is_question], dim=1)
        for layer in self.layers:
            x = layer(x)
        scores: Tensor = self.score(torch.relu(self.hidden(torch.cat([self.norm(x[:, :-1]), near], dim=-1))))
        return scores.squeeze(-1)


def nearness(records: Tensor, question: Tensor) -> Tensor:
    """(B, N, 1) the cosine of record and question beside that of the other records, spread out: all records share
    most of their words, so that their cosines lie close together."""
    near = cosine_similarity(records, question, dim=-1)
    return SPREAD * (near - near.mean(-1, keepdim=True)).unsqueeze(-1)


KINDS: dict[Kind, type[SpanRouter] | type[MixerRouter]] = {"span": SpanRouter, "mixer": MixerRouter}


def router_tokens(examples: Sequence[Example]) -> Tensor:
    """(B, N + 1, W) what a router reads of examples with as many records each: records, then the question."""
    spans = [[*example.blocks, example.query] for example in examples]
    widest = max(len(span) for row in spans for span in row)
    tokens = torch.zeros(len(examples), len(spans[0]), widest, dtype=torch.long)
    for b, (example, row) in enumerate(zip(examples, spans, strict=True)):
        for i, span in enumerate(row):
            tokens[b, i, : len(span)] = example.tokens[span.start : span.stop] + 1
    return tokens


def train_record_routers(
    kind: Kind, vocabulary: int, tokens: Tensor, targets: dict[str, Tensor], least_steps: int = LEAST_STEPS
) -> dict[str, nn.Module]:
    """Arm -> router, side by side on the same lessons, order and initialization.

    A target of (B, N) is a distribution to imitate, one of (B, S, N) are sets of which one is to be covered.
    """

    seen = torch.cat([torch.zeros(1, dtype=tokens.dtype), tokens.flatten()]).unique()  # 0: no token

    def whole(seed: int) -> RecordRouter:
        with torch.random.fork_rng():
            torch.manual_seed(seeds.ROUTER_INIT.seed(RUN, seed))
            return KINDS[kind](vocabulary)

    def build(seed: int) -> RecordRouter:
        router = whole(seed)
        router.table = nn.Embedding.from_pretrained(router.table.weight.detach()[seen], freeze=False)
        return router

    losses: dict[str, Loss] = {arm: KL() if target.ndim == 2 else Coverage() for arm, target in targets.items()}
    stream = table_stream(torch.searchsorted(seen, tokens), targets, RUN, min(BATCH, len(tokens)))
    trained = train_routers(build, [0], losses, stream, training_steps(len(tokens), least_steps))
    return {arm: with_all_tokens(whole(0), router, seen) for arm, (router,) in trained.items()}


def training_steps(lessons: int, least_steps: int) -> int:
    """15 epochs, and no fewer steps than the paper's 15 epochs have."""
    return max(least_steps, EPOCHS * (lessons // BATCH))


def with_all_tokens(fresh: RecordRouter, trained: RecordRouter, seen: Tensor) -> RecordRouter:
    """What was ``trained`` on the rows ``seen`` alone, for the whole vocabulary. Nothing moves the other rows; in the
    optimizer they would cost most of the training."""
    table = fresh.table.weight.detach().index_copy(0, seen, trained.table.weight.detach())
    fresh.load_state_dict(trained.state_dict() | {"table.weight": table})
    return fresh.eval()


@torch.no_grad()
def score_records(router: nn.Module, examples: Sequence[Example]) -> list[Tensor]:
    """(N,) of every example."""
    return [router(router_tokens([example]))[0] for example in examples]


WORDS = "bm25"
"""The arm of ``shared_words``."""


def shared_words(tokenizer: PreTrainedTokenizerBase, examples: Sequence[Example]) -> list[Tensor]:
    """(N,) of every example: BM25 of the question with each record, the rival that learns nothing."""

    def say(example: Example, span: Span) -> str:
        return str(tokenizer.decode(example.tokens[span.start : span.stop]))

    def asked(example: Example) -> Span:
        return example.asked or example.query if isinstance(example, TextExample) else example.query

    return [torch.tensor(bm25(say(e, asked(e)), [say(e, block) for block in e.blocks])) for e in examples]
