"""What ``keepset prune`` and ``keepset ask`` do once their arguments are read."""

from pathlib import Path
from typing import cast

from keepset.models.loading import load_model
from keepset.models.naming import check_named_model
from keepset.models.quantize import Quantize
from keepset.policies import Routed, check_name
from keepset.pruning.budget import Budget
from keepset.pruning.cache import EvictionMode
from keepset.pruning.context import PrunedContext
from keepset.pruning.pruner import Pruner
from keepset.pruning.saved import check_target, read_saved
from keepset.routers.trained_blocks import blocks_to_read


def prune_text(
    document: str,
    model: str,
    policy: str | None,
    router: Path | None,
    budget: str,
    mode: str,
    blocks: str | None,
    question: str | None,
    out: Path,
    force: bool,
    device: str,
    quantize: Quantize | None,
) -> PrunedContext:
    """A document pruned by a policy's name or a router's folder, one of the two, and saved."""
    if (policy is None) == (router is None):
        got = "neither" if policy is None else "both"
        raise ValueError(f"policy: expected either --router or --policy, got {got}")
    check_target(out, force)  # everything that can be wrong, before the model works for minutes
    parsed = Budget.parse(budget)
    chosen: str | Routed
    if router is None:
        chosen = check_name(str(policy))
    else:
        chosen = Routed.from_pretrained(router)
        blocks_to_read(chosen.router.blocks, blocks)
    loaded, tokenizer = load_model(model, device=device, quantize=quantize)
    pruned = Pruner(loaded, tokenizer, chosen, cast(EvictionMode, mode), blocks).prune(document, parsed, question)
    pruned.save(out, model, force)
    return pruned


def load_pruned_context(folder: Path, model: str | None, device: str) -> PrunedContext:
    """A saved document with its model: ``model``, or the one the record names when it is here already."""
    saved = read_saved(folder)
    name = model or check_named_model(saved.model, folder)
    return PrunedContext.load(folder, *load_model(name, device=device, quantize=saved.quantize))
