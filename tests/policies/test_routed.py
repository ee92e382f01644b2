"""A block router as a policy: its own scores, from memory and from disk, for its own model."""

from pathlib import Path

import pytest
import torch

from keepset.blocks import Span
from keepset.paper.bench.models import tiny_model
from keepset.policies import Context, Recency, Routed, score_checked
from keepset.pruning import Pruner
from keepset.routers.block import BlockRouter, ReadModel, score_document

BLOCKS = (Span(1, 9), Span(9, 20), Span(20, 30))
TOKENS = torch.randint(260, (32,), generator=torch.Generator().manual_seed(0))
DOCUMENT = "The code for NARO is 4821. " * 8


def test_routed_gives_the_routers_scores(tmp_path: Path) -> None:
    model, tokenizer = tiny_model()
    router = BlockRouter(ReadModel.of(model), "pre_query", layers=1, target="causal", blocks=16).eval()
    router.save_pretrained(tmp_path / "router")
    routed = Routed.from_pretrained(tmp_path / "router")
    context = Context(model, TOKENS, BLOCKS)
    expected = score_document(router, model, TOKENS, BLOCKS)
    assert routed.regimes == {"pre_query"}
    assert routed.title == "causal router"
    assert torch.equal(score_checked(routed, context), expected)
    with pytest.raises(ValueError, match="routed: expected a context of regime pre_query, got one with a question"):
        score_checked(routed, Context(model, TOKENS, BLOCKS, TOKENS[:3]))
    given = (router, routed, tmp_path / "router", str(tmp_path / "router"))
    kept = [Pruner(model, tokenizer, policy).prune(DOCUMENT, 0.5).kept for policy in given]
    assert len(set(kept)) == 1


def test_a_query_aware_router_reads_the_question() -> None:
    model, tokenizer = tiny_model()
    router = BlockRouter(ReadModel.of(model), "query_aware", layers=1, target="causal", blocks=16).eval()
    pruned = Pruner(model, tokenizer, router, blocks=16).prune(DOCUMENT, 0.5, question="What is the code?")
    assert pruned.record.regime == "query_aware"
    with pytest.raises(ValueError, match="routed: expected a context of regime query_aware, got one without"):
        Pruner(model, tokenizer, router, blocks=16).prune(DOCUMENT, 0.5)


def test_documents_are_cut_as_the_labels_were() -> None:
    model, tokenizer = tiny_model()
    router = BlockRouter(ReadModel.of(model), "pre_query", layers=1, target="causal", blocks="sentence").eval()
    for blocks in (None, "sentence"):
        pruned = Pruner(model, tokenizer, router, blocks=blocks).prune(DOCUMENT, 0.5)
        assert len(pruned.record.blocks) == 8
    by_default = Pruner(model, tokenizer, "recency").prune(DOCUMENT, 1.0).record.blocks
    assert len(by_default) == 8, "sentences, too"
    for blocks in (128, "line", [(0, 5)]):
        with pytest.raises(ValueError, match="blocks: expected sentence blocks, which this router was trained on, got"):
            Pruner(model, tokenizer, router, blocks=blocks)


def test_a_router_trained_for_another_model_is_refused() -> None:
    model, tokenizer = tiny_model()
    router = BlockRouter(ReadModel.of(model), "pre_query", layers=1, target="causal", blocks=16).eval()
    with torch.no_grad():
        model.model.norm.weight += 1
    Pruner(model, tokenizer, Recency(), blocks=16).prune(DOCUMENT, 0.5)
    with pytest.raises(ValueError, match="model: expected the one this router was trained for"):
        Pruner(model, tokenizer, router, blocks=16).prune(DOCUMENT, 0.5)


def test_a_folder_without_a_router_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected a saved router"):
        Routed.from_pretrained(tmp_path)
