"""What ``keepset prune`` and ``keepset ask`` do once their arguments are read."""

from pathlib import Path
from typing import cast

from keepset.models.loading import load_model
from keepset.policies import build_policy
from keepset.policies.routed import Routed
from keepset.pruning.budget import Budget
from keepset.pruning.cache import EvictionMode
from keepset.pruning.context import PrunedContext
from keepset.pruning.pruner import Pruner
from keepset.pruning.saved import read_saved


def prune_text(
    document: str,
    model: str,
    policy: str | None,
    router: Path | None,
    budget: str,
    mode: str,
    blocks: str,
    question: str | None,
) -> PrunedContext:
    """A document pruned by a policy's name or a router's folder: one of the two."""
    if (policy is None) == (router is None):
        got = "neither" if policy is None else "both"
        raise ValueError(f"policy: expected either --router or --policy, got {got}")
    parsed = Budget.parse(budget)
    routed = None if router is None else Routed.from_pretrained(router)  # before the model, which takes longer
    loaded, tokenizer = load_model(model)
    chosen = routed if routed is not None else build_policy(str(policy), tokenizer)
    return Pruner(loaded, tokenizer, chosen, cast(EvictionMode, mode), blocks).prune(document, parsed, question)


def load_pruned_context(folder: Path, model: str | None) -> PrunedContext:
    """A saved document with its model, which is where the record says unless ``model`` says otherwise."""
    name = model or read_saved(folder).model
    return PrunedContext.load(folder, *load_model(name))
