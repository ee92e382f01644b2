"""Products of whole numbers on a CPU: weights int8 per output channel, activations int8 per row at run time.

    model, tokenizer = keepset.load_model("qwen2.5-coder-1.5b-instruct", quantize="int8")
    speedup()                                             # is it worth it here? float32 seconds over int8 seconds

Every row has a scale of its own, so what a row becomes does not depend on the rows beside it: everything the engine
promises (a block hidden is a block never read) still holds. Attention, norms, embeddings and the head stay as they are.
Fast where the processor multiplies int8 (AVX512-VNNI, AMX); elsewhere slower than float32, which stays the default.
"""

import time
from typing import Literal, cast, get_args

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

Quantize = Literal["int8"]
LARGEST = 127
ROWS = 256
"""Rows multiplied at a time: more, and the int32 result leaves the processor's cache."""
FEWEST_ROWS, MULTIPLE = 17, 8
"""``torch._int_mm`` wants more than 16 rows, and on some devices widths that are multiples of 8."""


def check_quantize(quantize: str | None) -> Quantize | None:
    """``int8``, or nothing."""
    if quantize not in (None, *get_args(Quantize)):
        raise ValueError(f"quantize: expected int8 or none, got {quantize!r}")
    return cast(Quantize | None, quantize)


class Int8Linear(nn.Module):
    """A linear layer by int8 products, scaled back in float32."""

    weight: Tensor
    scale: Tensor
    bias: Tensor | None

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        whole, scale = rounded(linear.weight.detach().float())
        self.register_buffer("weight", whole)  # (out, in)
        self.register_buffer("scale", scale.mT.contiguous())  # (1, out)
        self.register_buffer("bias", None if linear.bias is None else linear.bias.detach())

    def forward(self, inputs: Tensor) -> Tensor:
        rows = inputs.reshape(-1, self.in_features)
        parts = [self._multiplied(part) for part in rows.split(ROWS)]
        return torch.cat(parts).to(inputs.dtype).view(*inputs.shape[:-1], self.out_features)

    def _multiplied(self, rows: Tensor) -> Tensor:
        """(R, in) -> (R, out) float32."""
        whole, scale = rounded(rows.float())
        missing = max(0, FEWEST_ROWS - len(whole))
        products = torch._int_mm(nn.functional.pad(whole, (0, 0, 0, missing)), self.weight.mT)[: len(rows)]
        result = products.float().mul_(scale).mul_(self.scale)
        return result if self.bias is None else result.add_(self.bias)


def rounded(rows: Tensor) -> tuple[Tensor, Tensor]:
    """(R, C) -> int8 of the same shape, and (R, 1) what a unit stands for in each row."""
    scale = rows.abs().amax(-1, keepdim=True).clamp(min=torch.finfo(torch.float32).tiny) / LARGEST
    return (rows / scale).round_().to(torch.int8), scale


def quantized(model: PreTrainedModel) -> PreTrainedModel:
    """``model`` itself, with every linear layer but the head replaced."""
    head = model.get_output_embeddings()
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear) and child is not head:
                if child.in_features % MULTIPLE or child.out_features % MULTIPLE:
                    raise ValueError(
                        f"quantize: expected layers whose widths are multiples of {MULTIPLE}, got {name} of "
                        f"{child.in_features} to {child.out_features}; leave quantize out for {type(model).__name__}"
                    )
                setattr(module, name, Int8Linear(child))
    model.config.quantize = "int8"  # part of every fingerprint of the model
    return model


def quantization(model: PreTrainedModel) -> Quantize | None:
    """How ``model`` was quantized, for whoever loads it again."""
    found: Quantize | None = getattr(model.config, "quantize", None)
    return found


@torch.inference_mode()
def speedup(rows: int = 256, width: int = 1_536, out: int = 8_960, rounds: int = 3) -> float:
    """Float32 seconds over int8 seconds for one layer of a 1.5B model on this machine: more than 1, int8 is faster."""
    with torch.random.fork_rng():
        linear, inputs = nn.Linear(width, out, bias=False), torch.randn(rows, width)
    seconds = {}
    for name, layer in (("float32", linear), ("int8", Int8Linear(linear))):
        layer(inputs)  # the first pays for allocations
        found = []
        for _ in range(rounds):
            began = time.perf_counter()
            layer(inputs)
            found.append(time.perf_counter() - began)
        seconds[name] = min(found)
    return seconds["float32"] / seconds["int8"]
