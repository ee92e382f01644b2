"""MomentKV: the blocks that a summary of everything evicted would speak for worst."""

import torch
from torch import Tensor

from keepset.blocks import Span
from keepset.policies.policy import BOTH, Context
from keepset.readouts.layers import Layer, block_sums, check_inputs, visit_layers


class MomentKV:
    """Attention received times the angle between a token's value and the mean value, summed over a block.

    MomentKV keeps moments of the evicted tokens (their number, mean key, mean value, covariance) and evicts what is
    aligned with them, because the error of eviction is the lost mass times the directional mismatch. The paper takes
    over the selection and not the correction of the output. Our reading of the statistic for one eviction at prefill,
    where nearly everything will be evicted: the summary is the mean value of the whole context in each head, the
    mismatch of a token is one minus the cosine with it, and the mass is the attention it received from every row.
    """

    name = "momentkv"
    title = "MomentKV"
    regimes = BOTH

    def score(self, context: Context) -> Tensor:
        tokens, length = context.batch, len(context.tokens)
        check_inputs(context.model, tokens, context.blocks)
        layers: list[Tensor] = []

        def read(layer: Layer) -> None:
            received = torch.zeros(*layer.query.shape[:2], tokens.shape[1], device=layer.query.device)  # (1, H, T)
            for piece, attention in layer.chunks(Span(0, tokens.shape[1])):
                received[..., : piece.stop] += attention.sum(2)
            values = layer.values(length)  # (1, H, T, D)
            aligned = torch.cosine_similarity(values, values.mean(2, keepdim=True), dim=-1)
            missed = received[..., :length] * (1 - aligned)
            layers.append(block_sums(missed, context.blocks).mean(1)[0].cpu())  # (N,)

        visit_layers(context.model, tokens, read)
        return torch.stack(layers).mean(0)
