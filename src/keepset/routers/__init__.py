"""Stage 5: the block router, which scores the blocks of anybody's text; losses; the one loop that trains routers.

    from keepset.routers import BlockRouter, load_block_router, score_document

    router = load_block_router(Path("router/"))
    score_document(router, model, tokens, blocks)          # (N,), higher is kept first

Reading order: ``features`` (what a router reads of a model), ``layer``, ``network`` (how it is saved),
``trained_blocks``, ``block``, ``targets`` (labels as targets), ``examples`` (documents as features and targets),
``losses``, ``streams``, ``training``, ``block_training``.
"""

from keepset.routers.block import BlockRouter, ReadModel, load_block_router, score_document
from keepset.routers.block_training import train_block_routers
from keepset.routers.examples import RouterExample, read_examples
from keepset.routers.losses import KL, Coverage, Loss, SparseKL
from keepset.routers.streams import Stream, table_stream
from keepset.routers.training import train_routers

__all__ = [
    "KL",
    "BlockRouter",
    "Coverage",
    "Loss",
    "ReadModel",
    "RouterExample",
    "SparseKL",
    "Stream",
    "load_block_router",
    "read_examples",
    "score_document",
    "table_stream",
    "train_block_routers",
    "train_routers",
]
