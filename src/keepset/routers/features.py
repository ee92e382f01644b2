"""What a block router reads of a pretrained model: the first layers, pooled over blocks.

    tokens      chat prefix, block 0, ..., block N-1            then, where the question is known, the question
    layers      embeddings, layer 1, ..., layer k | the rest of the model does not run
    features    (B, N, 2D): mean embedding and mean hidden state after layer k, of every block
                (B, 1 + N, 2D) with a question, which comes first

The first layers read the whole document causally, as in a prefill: a block's hidden states know what stands before it,
so a second write of a key can look different from a first one. Nothing of this depends on a later question.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import get_ident

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from keepset.blocks import Span
from keepset.readouts.layers import check_inputs

SHARE = 8
"""Features come from the first 1/8 of the layers: what a router costs of a prefill."""


def early_layers(model: PreTrainedModel) -> int:
    """How many layers a router runs unless told otherwise."""
    return max(1, len(decoder_layers(model)) // SHARE)


@torch.no_grad()
def block_features(
    model: PreTrainedModel,
    tokens: Tensor,
    blocks: Sequence[Span],
    question: Tensor | None = None,
    layers: int | None = None,
) -> Tensor:
    """Features of documents (B, T) that share their blocks; ``question`` is (B, Q). float32, on the model's device."""
    layers = early_layers(model) if layers is None else layers
    spans = list(blocks)
    if question is not None:
        spans.insert(0, Span(tokens.shape[-1], tokens.shape[-1] + question.shape[-1]))
        tokens = torch.cat([tokens, question], dim=-1)
    check_inputs(model, tokens, blocks)
    tokens = tokens.to(model.device)
    return pool_blocks(model.get_input_embeddings()(tokens), hidden_after(model, tokens, layers), spans)


def pool_blocks(embedded: Tensor, hidden: Tensor, spans: Sequence[Span]) -> Tensor:
    """(B, N, 2D) of (B, T, D) embeddings and (B, T, D) hidden states: their means over each of ``spans``."""
    pooled = [
        torch.cat([states[:, span.start : span.stop].float().mean(1) for states in (embedded, hidden)], dim=-1)
        for span in spans
    ]
    return torch.stack(pooled, dim=1)


def decoder_layers(model: PreTrainedModel) -> nn.ModuleList:
    """The layers of ``model``, whatever its architecture calls them."""
    count = model.config.get_text_config().num_hidden_layers
    for module in model.modules():
        if isinstance(module, nn.ModuleList) and len(module) == count:
            return module
    raise ValueError(f"{type(model).__name__}: expected a list of {count} layers, found none; use a decoder-only model")


class _Reached(Exception):
    """The last layer that is needed has run."""

    def __init__(self, hidden: Tensor) -> None:
        self.hidden = hidden


@contextmanager
def _stopping_after(layer: nn.Module) -> Iterator[None]:
    """Inside, a forward of this thread ends with ``_Reached`` instead of going on to the layers after ``layer``."""
    own = get_ident()

    def stop(module: nn.Module, inputs: object, output: Tensor | tuple[Tensor, ...]) -> None:
        if get_ident() == own:
            raise _Reached(output if isinstance(output, Tensor) else output[0])

    handle = layer.register_forward_hook(stop)
    try:
        yield
    finally:
        handle.remove()


def hidden_after(model: PreTrainedModel, tokens: Tensor, layers: int) -> Tensor:
    """(B, T, D) hidden states after the first ``layers`` layers; the others do not run."""
    found = decoder_layers(model)
    if not 1 <= layers <= len(found):
        raise ValueError(f"layers: expected 1 to {len(found)} (the layers of the model), got {layers}")
    try:
        with _stopping_after(found[layers - 1]):
            model(tokens, use_cache=False, logits_to_keep=1)
    except _Reached as reached:
        return reached.hidden
    raise ValueError(f"{type(model).__name__}: expected its forward to run its layers in order, but one was left out")
