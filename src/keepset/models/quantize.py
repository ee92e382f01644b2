"""Products of whole numbers on a CPU: weights rounded per output channel, activations per row at run time.

    model, tokenizer = keepset.load_model("qwen2.5-coder-1.5b-instruct", quantize="int8")
    speedup()                                             # what it is worth here: float32 seconds over int8 seconds

Every row has a scale of its own, so what a row becomes does not depend on the rows beside it: everything the engine
promises (a block hidden is a block never read) still holds. Attention, norms, embeddings and the head stay as they are.

The products are FBGEMM's, which torch has on x86 alone. ``torch._int_mm`` would run elsewhere too, and is slower than
float32 on x86 without VNNI; ``quantize_dynamic`` is FBGEMM with one scale for all rows.
"""

import math
import time
import warnings
from typing import Literal, cast, get_args

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from keepset.models.products import faster

Quantize = Literal["int8"]
LARGEST = 90
"""Of a rounded activation or weight. Without VNNI, FBGEMM adds two products of an activation (raised by ``LARGEST``
+ 1, because it has no sign there) and a weight in 16 bits: 2 × 181 × 90 = 32,580 fits, 127 × 127 would be cut off. The
same on every processor, so that labels do not depend on which one made them."""
SPREAD = 16
"""Neighbouring inputs that are mixed before rounding: one that is much larger than the others would set the row's scale
alone and round the others away. More than 16 cost a tenth of a prefill and were no closer to float32."""
CHUNK = 256
"""Rows that are multiplied at a time, so that what comes out is still in the cache when it is scaled."""
ENGINE, PRODUCT = "fbgemm", "linear_with_input_q_dq_qweight_dq_output_fp32"


def check_quantize(quantize: str | None) -> Quantize | None:
    """``int8``, or nothing."""
    if quantize not in (None, *get_args(Quantize)):
        raise ValueError(f"quantize: expected int8 or none, got {quantize!r}")
    return cast(Quantize | None, quantize)


class Int8Linear(nn.Module):
    """A linear layer by int8 products, scaled back in float32."""

    scale: Tensor
    bias: Tensor | None
    mixing: Tensor

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.register_buffer("mixing", mixing(linear.in_features), persistent=False)
        weight = self._mixed(linear.weight.detach().float())
        scale = largest(weight)[:, 0] / LARGEST
        self.register_buffer("scale", scale)  # (out,) what a unit stands for; also what tells rounded models apart
        self.register_buffer("bias", None if linear.bias is None else linear.bias.detach().float())
        self._packed = packed(weight, scale)

    def forward(self, inputs: Tensor) -> Tensor:
        if inputs.requires_grad and torch.is_grad_enabled():
            raise ValueError("quantize: expected no gradients through int8 layers; load the model without quantize")
        rows = inputs.reshape(-1, self.in_features)
        result = torch.empty(len(rows), self.out_features)
        product = getattr(torch.ops.quantized, PRODUCT)
        for few, scaled in zip(rows.split(CHUNK), result.split(CHUNK), strict=True):
            mixed = self._mixed(few.float())
            size = largest(mixed)
            torch.mul(product(mixed.div_(size), 1 / LARGEST, LARGEST + 1, self._packed), size, out=scaled)
            if self.bias is not None:
                scaled.add_(self.bias)
        return result.to(inputs.dtype).view(*inputs.shape[:-1], self.out_features)

    def _mixed(self, rows: Tensor) -> Tensor:
        """(R, in) -> (R, in), every neighbourhood turned by the same matrix: inputs and weights alike, so that products
        stay what they are."""
        return (rows.reshape(-1, len(self.mixing)) @ self.mixing).view(rows.shape)


def mixing(width: int) -> Tensor:
    """(S, S) a Hadamard matrix with S the largest power of two that divides ``width``, at most ``SPREAD``."""
    matrix = torch.ones(1, 1)
    while len(matrix) < min(SPREAD, width & -width):
        matrix = torch.cat([torch.cat([matrix, matrix], 1), torch.cat([matrix, -matrix], 1)])
    return matrix / math.sqrt(len(matrix))


def largest(rows: Tensor) -> Tensor:
    """(R, C) -> (R, 1) the largest magnitude of each row, never zero."""
    # vector_norm(inf) says the same and is many times slower.
    found: Tensor = torch.maximum(rows.amax(-1, keepdim=True), -rows.amin(-1, keepdim=True))
    return found.clamp_(min=torch.finfo(torch.float32).tiny)


def packed(weight: Tensor, scale: Tensor) -> torch.ScriptObject:
    """(out, in) rounded and laid out as FBGEMM reads it."""
    with warnings.catch_warnings():  # torch wants to be rid of quantized tensors; nothing else fills this form
        warnings.filterwarnings("ignore", ".*quantized tensor creation", UserWarning)
        zero = torch.zeros(len(scale), dtype=torch.long)
        whole = torch.quantize_per_channel(weight, scale.double(), zero, 0, torch.qint8)
    found: torch.ScriptObject = torch.ops.quantized.linear_prepack(whole, None)
    return found


def check_processor() -> None:
    """FBGEMM has to be there."""
    if ENGINE not in torch.backends.quantized.supported_engines or not hasattr(torch.ops.quantized, PRODUCT):
        raise ValueError(
            f"quantize: expected torch with {ENGINE}'s int8 products (x86, torch 2.13), got torch {torch.__version__} "
            f"with {', '.join(torch.backends.quantized.supported_engines)}; leave quantize out here"
        )


def quantized(model: PreTrainedModel) -> PreTrainedModel:
    """``model`` itself, with every linear layer but the head replaced; it can no longer be trained."""
    check_processor()
    head = model.get_output_embeddings()
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear) and child is not head:
                setattr(module, name, Int8Linear(child))
    model.config.quantize = "int8"  # part of every fingerprint of the model
    return model.requires_grad_(False)


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
    for name, layer in (("float32", faster(linear)), ("int8", Int8Linear(linear))):
        layer(inputs)  # the first pays for allocations
        found = []
        for _ in range(rounds):
            began = time.perf_counter()
            layer(inputs)
            found.append(time.perf_counter() - began)
        seconds[name] = min(found)
    return seconds["float32"] / seconds["int8"]
