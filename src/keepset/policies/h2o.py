"""H2O: the blocks that received the most attention so far."""

from torch import Tensor

from keepset.policies.policy import BOTH, Context
from keepset.readouts import all_position_attention


class H2O:
    """Attention received, summed over every row, layer and head: the plain accumulated sum.

    Acts once at prefill and on whole blocks, as the paper transplants it. Early blocks are read by more rows and the
    sum does not correct for that; kvpress' ObservedAttention does, and is another policy.
    """

    name = "h2o"
    title = "H2O"
    regimes = BOTH

    def score(self, context: Context) -> Tensor:
        return all_position_attention(context.model, context.batch, context.blocks)[0]
