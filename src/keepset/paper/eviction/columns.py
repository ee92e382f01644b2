"""What is compared, and under which titles: conditions, modes, and the policies of each regime.

Titles are the paper's columns in its order. A policy that is not among them has its column after them, under its own
name, as soon as it has results.
"""

from typing import NamedTuple, get_args

from keepset.pruning.cache import EvictionMode

MODES: tuple[EvictionMode, ...] = get_args(EvictionMode)
CONDITIONS = {
    "single": "single needle",
    "multikey": "multikey",
    "variable_tracking": "variable tracking",
    "register_log": "register log",
}
CONTROL = "register_log_any"
ALL_CONDITIONS = {**CONDITIONS, CONTROL: "register log, any query"}


class Arm(NamedTuple):
    """A policy; a router has the seed of its initialization beside it."""

    policy: str
    router_seed: int | None = None


CAUSAL, IMITATION, TWIN, ORACLE = Arm("causal", 0), Arm("imitation", 0), Arm("twin", 0), Arm("oracle")
KVZIP_TOKENS = Arm("kvzip_tokens")
"""KVzip as its users run it, key by key in every head: what whole blocks cost. Under ``post_prefill`` alone."""
ROUTER_SEEDS = 3
CAUSAL_SEEDS = tuple(Arm("causal", seed) for seed in range(ROUTER_SEEDS))
PRE_QUERY = {
    CAUSAL: "causal (seed 0)",
    IMITATION: "imitation",
    TWIN: "twin (KVzip's choice)",
    Arm("h2o"): "H2O",
    Arm("snapkv"): "SnapKV (context window)",
    Arm("momentkv"): "MomentKV",
    Arm("restkv"): "ReST-KV",
    Arm("kvzip"): "KVzip",
    Arm("kvzip_max"): "KVzip, max over heads",
    KVZIP_TOKENS: "KVzip, per head and token",
    Arm("expected_attention"): "Expected Attention",
    Arm("recency"): "recency",
    Arm("random"): "random",
    ORACLE: "evidence set",
}
"""Policies that never see the question."""
QUERY_AWARE = {
    CAUSAL: "causal (seed 0)",
    IMITATION: "imitation",
    Arm("snapkv"): "SnapKV",
    Arm("momentkv"): "MomentKV",
    Arm("restkv"): "ReST-KV",
    Arm("bm25"): "BM25",
    ORACLE: "evidence set",
}
TITLES = {"pre_query": PRE_QUERY, "query_aware": QUERY_AWARE}


def percent(budget: float) -> str:
    return f"{100 * budget:g} %"
