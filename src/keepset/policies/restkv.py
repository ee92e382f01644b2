"""ReST-KV: the blocks whose removal moves the attention output."""

from torch import Tensor

from keepset.policies.policy import BOTH, WINDOW, Context
from keepset.readouts import output_reconstruction


class ReSTKV:
    """How far each head's output moves when the block is removed and the softmax is taken over the rest.

    ReST-KV approximates this per token as attention through an amplifier, a / (1 - a), times the distance of the
    token's value from the output. For one token that is exact; for a block it is not, so here the output without the
    block is computed. Divergences, as in the paper: blocks instead of tokens, the mean over layers and heads because
    there is one selection, and a plain mean over the window in place of the smoothing over time and space.
    Our reading of "context rows" where there is no question: the last ``window`` rows, as for SnapKV.
    """

    name = "restkv"
    title = "ReST-KV"
    regimes = BOTH

    def __init__(self, window: int = WINDOW) -> None:
        self.window = window

    def score(self, context: Context) -> Tensor:
        rows = context.observing_rows(self.window)
        return output_reconstruction(context.model, context.batch, context.blocks, rows)[0].mean((0, 1))
