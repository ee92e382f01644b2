"""Stage 7: blocks really dropped, before or after the question is known.

    from keepset.policies import Routed
    from keepset.pruning import Pruner, PrunedContext

    pruner = Pruner(model, tokenizer, policy=Routed.from_pretrained("router/"))
    pruned = pruner.prune(document, budget=0.1)          # no question yet
    pruned.ask("What is register R17 set to?")           # many questions, one cache
    pruned.save("doc.pruned")
    PrunedContext.load("doc.pruned", model, tokenizer)

Reading order: ``text.prompt`` (a document as tokens), ``budget`` (which blocks), ``cache`` (both modes, on tokens: what
evaluations call too), ``report`` (and the check that the rest is gone), ``saved``, ``context``, ``pruner``.
"""

from keepset.pruning.budget import Budget, select
from keepset.pruning.cache import EvictionMode, KeptCache, generate, kept_positions, prefill_kept, read_after
from keepset.pruning.context import PrunedContext
from keepset.pruning.pruner import Pruner
from keepset.pruning.report import PruneRecord, PruneReport

__all__ = [
    "Budget",
    "EvictionMode",
    "KeptCache",
    "PruneRecord",
    "PruneReport",
    "PrunedContext",
    "Pruner",
    "generate",
    "kept_positions",
    "prefill_kept",
    "read_after",
    "select",
]
