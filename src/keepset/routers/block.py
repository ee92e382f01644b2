"""The block router: scores the blocks of a long document for a pretrained model, before or after the question is known.

router = load_block_router(Path("router/"))
scores = score_document(router, model, tokens, blocks)                # (N,), higher is kept first
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, cast, get_args

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from keepset.blocks import Span
from keepset.files import Frozen
from keepset.models.fingerprint import weights_fingerprint
from keepset.routers.features import block_features
from keepset.routers.layer import LAYERS, WIDTH, RouterLayer
from keepset.routers.network import SavedNetwork, check_weights, load_network, read_config
from keepset.routers.trained_blocks import TrainedBlocks, find_blocks

Regime = Literal["pre_query", "query_aware"]
Target = Literal["causal", "imitation", "twin"]
"""Evidence, attention, or what another policy keeps (the laboratory's control: the same router, another label)."""

NOWHERE = -1e4
"""Score of a block that is only padding: it adds nothing to any loss."""


def find_regime(name: str) -> Regime:
    """The regime called ``name``."""
    if name not in get_args(Regime):
        raise ValueError(f"regime: expected one of {', '.join(get_args(Regime))}, got {name!r}")
    return cast(Regime, name)


def find_target(name: str) -> Target:
    """The target called ``name``."""
    if name not in get_args(Target):
        raise ValueError(f"target: expected one of {', '.join(get_args(Target))}, got {name!r}")
    return cast(Target, name)


class ReadModel(Frozen):
    """The model whose first layers a router reads."""

    name: str
    """What it was called when the router was trained; for messages."""
    fingerprint: str
    """Of its config and a sample of every weight."""
    hidden_size: int
    vocabulary: int
    """Token ids it has."""

    @classmethod
    def of(cls, model: PreTrainedModel) -> "ReadModel":
        config = model.config.get_text_config()
        return cls(
            name=Path(model.config._name_or_path or type(model).__name__).name,
            fingerprint=weights_fingerprint(model),
            hidden_size=config.hidden_size,
            vocabulary=config.vocab_size,
        )

    def check(self, model: PreTrainedModel) -> None:
        """Another model's layers mean something else, even where the sizes agree."""
        found = ReadModel.of(model)
        if (found.fingerprint, found.hidden_size, found.vocabulary) != (
            self.fingerprint,
            self.hidden_size,
            self.vocabulary,
        ):
            raise ValueError(f"model: expected the one this router was trained for, {self}, got {found}; {ADVICE}")

    def __str__(self) -> str:
        return f"{self.name} (width {self.hidden_size}, {self.vocabulary} tokens, weights {self.fingerprint[:8]})"


ADVICE = "label data with this model and train a router for it (keepset label, keepset train)"


class SavedBlockRouter(Frozen):
    """``config.json`` beside the weights."""

    router: Literal["block"]
    reads: ReadModel
    regime: Regime
    layers: int
    """How many layers of the model it reads."""
    target: Target
    """What it was trained on."""
    blocks: TrainedBlocks
    """How the documents it was trained on were cut, and those it scores are."""
    weights_sha256: str
    """Hash of ``model.safetensors``."""


class BlockRouter(
    SavedNetwork, coders={ReadModel: (ReadModel.model_dump, ReadModel.model_validate)}, library_name="keepset"
):
    """summary = W [pooled embedding, pooled hidden state, relative position]; two layers over all summaries; a scorer.

    With the question known, its summary is one more. Blocks have no number, only a place between 0 and 1: trained on
    16 blocks, it reads 128.
    """

    center: Tensor
    scale: Tensor

    def __init__(self, reads: ReadModel, regime: Regime, layers: int, target: Target, blocks: str | int) -> None:
        super().__init__()
        self.reads = reads
        self.regime = find_regime(regime)
        self.layers = layers
        self.target = find_target(target)
        self.blocks = find_blocks(blocks)
        features = 2 * reads.hidden_size
        self.register_buffer("center", torch.zeros(features))
        self.register_buffer("scale", torch.ones(features))
        self.summary = nn.Linear(features, WIDTH)
        self.position = nn.Parameter(torch.randn(WIDTH))
        self.is_question = nn.Parameter(torch.randn(WIDTH))
        self.encoder = nn.ModuleList(RouterLayer() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.hidden = nn.Linear(WIDTH, WIDTH)
        self.score = nn.Linear(WIDTH, 1)

    @property
    def asks(self) -> int:
        """Rows of the features before the blocks: the question's."""
        return int(self.regime == "query_aware")

    def standardise(self, features: Sequence[Tensor]) -> None:
        """Centers and scales every feature by its spread over these documents: some are a thousand times the rest."""
        rows = torch.cat([document.flatten(0, -2) for document in features]).double()
        self.center.copy_(rows.mean(0))
        self.scale.copy_(rows.std(0, correction=0).clamp(min=1e-6))

    def forward(self, features: Tensor) -> Tensor:
        """(B, N, 2D), or (B, 1 + N, 2D) with the question first -> (B, N). Rows of zeros at the end are padding."""
        exists = features.ne(0).any(-1)
        blocks = exists[:, self.asks :]
        place = blocks.cumsum(1) / blocks.sum(1, keepdim=True)  # (B, N) as in the other routers: (i + 1) / N
        x = self.summary((features - self.center) / self.scale)
        question, x = x[:, : self.asks] + self.is_question, x[:, self.asks :] + place.unsqueeze(-1) * self.position
        x = torch.cat([question, x], dim=1)
        for layer in self.encoder:
            x = layer(x, exists)
        scores: Tensor = self.score(torch.relu(self.hidden(self.norm(x[:, self.asks :])))).squeeze(-1)
        return scores.masked_fill(~blocks, NOWHERE)

    @classmethod
    def _from_pretrained(cls, *, model_id: str, **kwargs: Any) -> "BlockRouter":
        if Path(model_id).is_dir():
            read_config(Path(model_id), SavedBlockRouter)  # says what is wrong, where a missing argument would not
        return cast(BlockRouter, super()._from_pretrained(model_id=model_id, **kwargs))

    def config(self, weights_sha256: str) -> SavedBlockRouter:
        return SavedBlockRouter(
            router="block",
            reads=self.reads,
            regime=self.regime,
            layers=self.layers,
            target=self.target,
            blocks=self.blocks,
            weights_sha256=weights_sha256,
        )


def load_block_router(folder: Path) -> BlockRouter:
    """The router saved in ``folder``."""
    folder = Path(folder)
    check_weights(folder, read_config(folder, SavedBlockRouter).weights_sha256)
    return load_network(folder, BlockRouter)


def score_document(
    router: BlockRouter,
    model: PreTrainedModel,
    tokens: Tensor,
    blocks: Sequence[Span],
    question: Tensor | None = None,
) -> Tensor:
    """(N,) the score of every block of the document ``tokens``, (T,); ``question`` is (Q,), for query-aware routers."""
    check_reads(router, model, question)
    asked = None if question is None else question[None]
    return score_features(router, block_features(model, tokens[None], blocks, asked, router.layers))


def check_reads(router: BlockRouter, model: PreTrainedModel, question: Tensor | None) -> None:
    """The router was trained for this model, and for a question where there is one."""
    router.reads.check(model)
    if (question is not None) != bool(router.asks):
        raise ValueError(
            f"question: expected {'one' if router.asks else 'none'} (the router was trained for the regime "
            f"{router.regime}), got {'none' if question is None else 'one'}; use a router of the other regime"
        )


@torch.no_grad()
def score_features(router: BlockRouter, features: Tensor) -> Tensor:
    """(N,) the score of every block of one document, (1, N, 2D); the question comes first where there is one."""
    scores: Tensor = router(features.to(router.center.device))[0].cpu()
    return scores
