"""Float32 products by oneDNN, on a CPU where MKL's are slower.

torch multiplies float32 matrices by MKL, which on processors of another maker leaves AVX512 alone. oneDNN, which torch
brings along for other types, does not: ``keepset doctor`` says what that is worth here. The numbers are the same but
for rounding.

    model = by_faster_products(model)       # what load_model does; nothing changes where MKL is as fast
"""

import time
from functools import lru_cache

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

WORTH = 1.3
"""How many times as fast oneDNN has to be: where the two are level, noise should not choose."""


class OneDnnLinear(nn.Linear):
    """A linear layer that multiplies by oneDNN where it can: float32 on a CPU, and no gradient is asked for."""

    def forward(self, inputs: Tensor) -> Tensor:
        learning = torch.is_grad_enabled() and (inputs.requires_grad or self.weight.requires_grad)
        plain = inputs.dtype == self.weight.dtype == torch.float32 and inputs.device.type == "cpu"
        if learning or not plain or not inputs.numel():
            return super().forward(inputs)
        return one_dnn_product(inputs, self.weight, self.bias)


def one_dnn_product(inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """(…, in), (out, in), (out) -> (…, out)."""
    product: Tensor = torch.ops.mkldnn._linear_pointwise(inputs, weight, bias, "none", [], "")
    return product


def by_faster_products(model: PreTrainedModel) -> PreTrainedModel:
    """``model`` itself; its float32 layers multiply by oneDNN if that is faster on this machine."""
    for module in model.modules():
        if type(module) is nn.Linear:
            faster(module)
    return model


def faster(layer: nn.Linear) -> nn.Linear:
    """``layer`` itself, multiplying by what is faster here."""
    if layer.weight.device.type == "cpu" and layer.weight.dtype == torch.float32 and one_dnn_speedup() > WORTH:
        layer.__class__ = OneDnnLinear
    return layer


@lru_cache
@torch.inference_mode()
def one_dnn_speedup(rows: int = 256, width: int = 576, out: int = 1_536, rounds: int = 5) -> float:
    """MKL's seconds over oneDNN's for one layer of a small model on this machine: more than 1, oneDNN is faster."""
    if not torch.backends.mkldnn.is_available() or not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return 0.0
    inputs, weight = torch.ones(rows, width), torch.ones(out, width)
    seconds = {product: float("inf") for product in (nn.functional.linear, one_dnn_product)}
    for _ in range(rounds):
        for product in seconds:
            began = time.perf_counter()
            product(inputs, weight, None)
            seconds[product] = min(seconds[product], time.perf_counter() - began)
    return seconds[nn.functional.linear] / seconds[one_dnn_product]
