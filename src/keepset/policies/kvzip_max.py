"""KVzip with the maximum over heads: the blocks some head looks at while the model repeats the context."""

from torch import Tensor

from keepset.policies.kvzip import KVzip
from keepset.policies.policy import Context


class KVzipMax(KVzip):
    """As ``KVzip``, with the maximum over heads and layers in place of the mean."""

    name = "kvzip_max"
    title = "KVzip, max over heads"

    def score(self, context: Context) -> Tensor:
        return self.head_scores(context).amax((0, 1))
