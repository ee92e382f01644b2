"""Stage 6: what ranks the blocks of a document for keeping.

    from keepset.policies import Context, H2O, SnapKV

    H2O().score(Context(model, tokens, blocks))                       # (N,), pre_query
    SnapKV().score(Context(model, tokens, blocks, question))          # (N,), query_aware

One file per policy, one ``score`` each; a new one needs a ``name``, a ``title`` for tables, its ``regimes`` and
``score``, and a line in ``POLICIES``, the only list of them. Policies never see the answer: they import neither labels
nor interventions. The oracle is handed labels by its caller.

Reading order: ``policy`` (what a policy is given), then any of the others.
"""

from collections.abc import Callable
from pathlib import Path

from transformers import PreTrainedTokenizerBase

from keepset.policies.bm25 import BM25
from keepset.policies.expected_attention import ExpectedAttention
from keepset.policies.h2o import H2O
from keepset.policies.kvzip import KVzip
from keepset.policies.kvzip_max import KVzipMax
from keepset.policies.momentkv import MomentKV
from keepset.policies.oracle import Oracle
from keepset.policies.policy import BOTH, PRE_QUERY, QUERY_AWARE, Context, Policy, Regime, score_checked
from keepset.policies.question_likelihood import QuestionLikelihood
from keepset.policies.random import Random
from keepset.policies.recency import Recency
from keepset.policies.restkv import ReSTKV
from keepset.policies.routed import Routed
from keepset.policies.snapkv import SnapKV
from keepset.policies.words import Words
from keepset.routers.block import BlockRouter

__all__ = [
    "BM25",
    "BOTH",
    "H2O",
    "POLICIES",
    "PRE_QUERY",
    "QUERY_AWARE",
    "Context",
    "ExpectedAttention",
    "KVzip",
    "KVzipMax",
    "MomentKV",
    "Oracle",
    "Policy",
    "QuestionLikelihood",
    "Random",
    "ReSTKV",
    "Recency",
    "Regime",
    "Routed",
    "SnapKV",
    "Words",
    "build_policy",
    "check_name",
    "find_policy",
    "score_checked",
]

POLICIES: dict[str, Callable[[PreTrainedTokenizerBase], Policy]] = {
    H2O.name: lambda tokenizer: H2O(),
    SnapKV.name: lambda tokenizer: SnapKV(),
    MomentKV.name: lambda tokenizer: MomentKV(),
    ReSTKV.name: lambda tokenizer: ReSTKV(),
    KVzip.name: KVzip,
    KVzipMax.name: KVzipMax,
    ExpectedAttention.name: lambda tokenizer: ExpectedAttention(),
    BM25.name: BM25,
    QuestionLikelihood.name: lambda tokenizer: QuestionLikelihood(),
    Words.name: Words,
    Recency.name: lambda tokenizer: Recency(),
    Random.name: lambda tokenizer: Random(),
}
"""The policies that need no labels and no training, by name."""


def find_policy(policy: str | Path | BlockRouter | Policy | None, tokenizer: PreTrainedTokenizerBase) -> Policy:
    """A policy by its name, a router, the folder of one, or a policy as it is."""
    if policy is None:
        raise ValueError(
            f"policy: expected a router, the folder of one, a policy or its name ({', '.join(POLICIES)}), got none"
        )
    if isinstance(policy, BlockRouter):
        return Routed(policy)
    if isinstance(policy, Path) or (isinstance(policy, str) and policy not in POLICIES and Path(policy).is_dir()):
        return Routed.from_pretrained(policy)
    return build_policy(policy, tokenizer) if isinstance(policy, str) else policy


def build_policy(name: str, tokenizer: PreTrainedTokenizerBase) -> Policy:
    """A policy with its default settings."""
    return POLICIES[check_name(name)](tokenizer)


def check_name(name: str) -> str:
    """``name``, if a policy is called that."""
    if name not in POLICIES:
        raise ValueError(f"policy: expected one of {', '.join(POLICIES)}, or the folder of a router, got {name!r}")
    return name
