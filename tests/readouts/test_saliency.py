"""Saliency is the gradient, and taking it leaves no trace on the model."""

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

from keepset.blocks import Example, Span
from keepset.readouts import input_saliency

STEP = 1e-4


def test_finite_differences_agree(model: PreTrainedModel, example: Example) -> None:
    """A block of one token, moved along every axis of its embedding."""
    model, position, answer = model.double(), 6, torch.tensor([example.answer])
    read = torch.cat([example.tokens, answer[0, :-1]])
    embeddings = model.get_input_embeddings()(read).detach()
    slopes = []
    for axis in torch.eye(embeddings.shape[-1], dtype=torch.float64):
        moved = embeddings.repeat(2, 1, 1)
        moved[0, position] += STEP * axis
        moved[1, position] -= STEP * axis
        with torch.no_grad():
            logged = model(inputs_embeds=moved).logits[:, -len(example.answer) :].log_softmax(-1)
        scores = logged.gather(-1, answer.expand(2, -1)[..., None]).sum((1, 2))
        slopes.append((scores[0] - scores[1]) / (2 * STEP))
    found = input_saliency(model, example.tokens[None], [Span(position, position + 1)], answer)
    torch.testing.assert_close(found[0, 0].double(), torch.stack(slopes).norm(), atol=1e-5, rtol=1e-3)


def state(model: PreTrainedModel) -> list[object]:
    flags: list[object] = [(name, p.requires_grad, p.grad) for name, p in model.named_parameters()]
    patched = [layer for layer in model.modules() if isinstance(layer, GradientCheckpointingLayer)]
    return flags + ["forward" in vars(layer) for layer in patched]


@pytest.mark.parametrize("fails", [False, True])
def test_the_model_is_left_as_it_was(
    model: PreTrainedModel, example: Example, tokens: Tensor, fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.lm_head.requires_grad_(False)
    before, expected = state(model), model(tokens).logits

    def no_room(*args: object) -> Tensor:
        raise RuntimeError("no room")

    answers = torch.tensor([example.answer])
    if fails:
        monkeypatch.setattr(torch.autograd, "grad", no_room)
        with pytest.raises(RuntimeError, match="no room"):
            input_saliency(model, tokens, example.blocks, answers)
    else:
        input_saliency(model, tokens, example.blocks, answers)
    assert state(model) == before
    assert torch.equal(model(tokens).logits, expected)


def test_a_forward_set_by_others_survives(model: PreTrainedModel, example: Example, tokens: Tensor) -> None:
    layer = next(m for m in model.modules() if isinstance(m, GradientCheckpointingLayer))
    theirs = layer.forward
    vars(layer)["forward"] = theirs
    input_saliency(model, tokens, example.blocks, torch.tensor([example.answer]))
    assert vars(layer)["forward"] is theirs


@torch.no_grad()
def test_works_where_gradients_are_off(model: PreTrainedModel, example: Example, tokens: Tensor) -> None:
    assert (input_saliency(model, tokens, example.blocks, torch.tensor([example.answer])) > 0).all()


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        (torch.tensor([3]), r"answers: expected whole numbers \(B, A\) with B=1"),
        (torch.zeros(2, 1).long(), r"answers: .* with B=1 .* got torch.int64 \(2, 1\)"),
        (torch.zeros(1, 0).long(), "answers: .* at least one token"),
        (torch.ones(1, 1), "answers: expected whole numbers"),
        (torch.full((1, 1), 50), r"answers: expected ids in \[0, 50\), got 50 to 50"),
        (torch.ones(1, 17).long(), "tokens: expected at most 32 .* got 33"),
    ],
)
def test_bad_answers_are_refused(
    model: PreTrainedModel, example: Example, tokens: Tensor, answers: Tensor, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        input_saliency(model, tokens, example.blocks, answers)
