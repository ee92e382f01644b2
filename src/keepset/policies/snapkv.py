"""SnapKV: the blocks that an observation window looks at."""

from torch import Tensor

from keepset.policies.policy import BOTH, WINDOW, Context
from keepset.readouts import window_attention


class SnapKV:
    """Attention received from the question's rows, or from the last ``window`` context rows where there is none.

    One selection for all layers and heads, so their mean; whole blocks take the place of SnapKV's pooling over
    neighbouring tokens.
    """

    name = "snapkv"
    title = "SnapKV"
    regimes = BOTH

    def __init__(self, window: int = WINDOW) -> None:
        self.window = window

    def score(self, context: Context) -> Tensor:
        rows = context.observing_rows(self.window)
        return window_attention(context.model, context.batch, context.blocks, rows)[0].mean((0, 1))
