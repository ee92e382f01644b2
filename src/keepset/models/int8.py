"""Linear layers in int8 for CPUs with integer dot products: about twice as fast as float32, and exact row by row.

    weights       int8, one scale per output channel, rounded once
    activations   int8, one scale per row, rounded at run time
    product       int32 (``torch._int_mm``), scaled back to float32

A row's scale depends on that row alone, so what a token computes does not depend on which rows share its forward: every
exactness of the engine (batched equals single, shared beginnings) stays. Scales per tensor, as ``quantize_dynamic`` has
them, would break that. Attention, norms, embeddings and the head stay as they are.
"""

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

INT8 = "int8"
LARGEST = 127
ROWS = 256
"""Rows multiplied together: the int32 result stays in the cache."""


class Int8Linear(nn.Module):
    """A linear layer whose product is taken in int8."""

    weight: Tensor
    """(in, out) int8."""
    scale: Tensor
    """(out,) float32."""
    bias: Tensor | None

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weight = linear.weight.detach().float()  # (out, in)
        scale = weight.abs().amax(1).clamp(min=1e-12) / LARGEST
        rounded = (weight / scale[:, None]).round().to(torch.int8)
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.register_buffer("weight", rounded.T.contiguous())
        self.register_buffer("scale", scale)
        self.register_buffer("bias", None if linear.bias is None else linear.bias.detach().float())

    def forward(self, x: Tensor) -> Tensor:
        """(..., in) -> (..., out)"""
        rows = x.reshape(-1, self.in_features)
        return torch.cat([self._product(part) for part in rows.split(ROWS)]).view(*x.shape[:-1], self.out_features)

    def _product(self, rows: Tensor) -> Tensor:
        scale = rows.abs().amax(1, keepdim=True).clamp_(min=1e-12).div_(LARGEST)  # (B, 1)
        rounded = (rows / scale).round_().to(torch.int8)
        product = torch._int_mm(rounded, self.weight).float().mul_(scale).mul_(self.scale)
        return product if self.bias is None else product.add_(self.bias)


def to_int8(model: PreTrainedModel) -> PreTrainedModel:
    """Replaces the linear layers of the decoder, in place. The head stays: its rows are few, its logits are read."""
    if model.device.type != "cpu" or model.dtype != torch.float32:
        raise ValueError(
            f"quantize: expected a float32 model on the CPU for int8, got {model.dtype} on {model.device}; "
            "leave quantize out there"
        )
    head = model.get_output_embeddings()
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is nn.Linear and child is not head:
                setattr(parent, name, Int8Linear(child))
    return model
