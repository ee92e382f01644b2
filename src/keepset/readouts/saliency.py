"""Input-gradient saliency: how much the answer's log-probability feels each token's embedding."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from threading import Lock

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

from keepset.blocks import Span
from keepset.models.capabilities import check_positions, check_vocabulary
from keepset.readouts.layers import block_sums, check_inputs, clean_mask

_ONE_AT_A_TIME = Lock()
"""Layers and parameters are changed and put back; two threads would put back what the other one changed."""


def input_saliency(model: PreTrainedModel, tokens: Tensor, blocks: Sequence[Span], answers: Tensor) -> Tensor:
    """(B, N) norm of the gradient of the answer's log-probability by each token's input embedding, summed per block.

    ``answers`` is (B, A) token ids; longer answers are read with the earlier answer tokens given. One backward
    pass for the whole batch. The paper says "input-gradient saliency"; the norm, and not the product with the
    embedding, is chosen here because the paper names nothing but the gradient.
    """
    check_inputs(model, tokens, blocks)
    check_answers(model, tokens, answers)
    forced = torch.cat([tokens, answers[:, :-1].to(tokens.device)], dim=1)
    with _ONE_AT_A_TIME, only_inputs_learn(model), checkpointed(model), torch.enable_grad():
        embeddings = model.get_input_embeddings()(forced.to(model.device)).detach().requires_grad_()
        logits = model(
            inputs_embeds=embeddings,
            attention_mask=clean_mask(model, *forced.shape),
            position_ids=torch.arange(forced.shape[1], device=model.device).expand(len(forced), -1),
            use_cache=False,
            logits_to_keep=answers.shape[1],
        ).logits
        logged = logits.float().log_softmax(-1).gather(-1, answers.to(logits.device)[..., None])
        # Examples do not touch each other, so the gradient of the sum is the gradient of each.
        (gradient,) = torch.autograd.grad(logged.sum(), embeddings)
    return block_sums(torch.linalg.vector_norm(gradient.float(), dim=-1), blocks).cpu()


def check_answers(model: PreTrainedModel, tokens: Tensor, answers: Tensor) -> None:
    """One answer of at least one token per row of tokens, that the model can read after them."""
    if answers.ndim != 2 or answers.shape[1] == 0 or len(answers) != len(tokens) or answers.is_floating_point():
        raise ValueError(
            f"answers: expected whole numbers (B, A) with B={len(tokens)} and at least one token, "
            f"got {answers.dtype} {tuple(answers.shape)}; pass torch.tensor([example.answer]) for one example"
        )
    check_vocabulary(model, answers, "answers")
    check_positions(model, tokens.shape[1] + answers.shape[1] - 1, "tokens")


@contextmanager
def only_inputs_learn(model: PreTrainedModel) -> Iterator[None]:
    """Inside, no parameter asks for a gradient: what the backward pass of the weights would need is not held."""
    learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
    try:
        for parameter in learning:
            parameter.requires_grad_(False)
        yield
    finally:
        for parameter in learning:
            parameter.requires_grad_(True)


@contextmanager
def checkpointed(model: PreTrainedModel) -> Iterator[None]:
    """Inside, a layer's activations are not held for the backward pass but computed again there.

    transformers' own switch works in training mode only, and that would turn dropout on.
    """
    layers = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
    before = [vars(layer).get("forward") for layer in layers]
    try:
        for layer in layers:
            vars(layer)["forward"] = partial(checkpoint, layer.forward, use_reentrant=False)
        yield
    finally:
        for layer, forward in zip(layers, before, strict=True):
            vars(layer).pop("forward", None)
            if forward is not None:
                vars(layer)["forward"] = forward
