"""What a report says was kept is what is there, and what it takes."""

import copy
import math
from typing import get_args

import pytest
import torch
from rich.console import Console

from keepset.policies import H2O, Oracle, Recency
from keepset.pruning import Budget, Pruner
from keepset.pruning.cache import EvictionMode
from keepset.pruning.report import GAP, check_eviction
from keepset.text.prompt import document_tokens
from tests.pruning.conftest import Loaded


@pytest.mark.parametrize("mode", get_args(EvictionMode))
def test_a_report_says_what_was_kept_and_what_it_takes(loaded: Loaded, document: str, mode: EvictionMode) -> None:
    pruned = Pruner(*loaded, H2O(), mode=mode, blocks=16, keep_recent=1).prune(document, 0.25)
    report = pruned.report()
    record = report.record
    assert (record.mode, record.regime, record.policy) == (mode, "pre_query", "h2o")
    assert len(pruned.kept) == math.ceil(len(record.blocks) / 4)
    assert [block.why for block in record.blocks if block.why == "protected"] == ["protected"] * 2
    assert {0, len(record.blocks) - 1} < set(pruned.kept)
    outside = record.n_tokens - sum(block.tokens for block in record.blocks)
    if mode == "text":
        assert report.tokens_after == record.text_tokens == len(document_tokens(loaded[1], pruned.text))
    else:
        assert report.tokens_after == outside + sum(block.tokens for block in record.blocks if block.kept)
    assert report.bytes_after / report.bytes_before == report.tokens_after / report.tokens_before
    assert report.bytes_before == 2 * 2 * 2 * 16 * 4 * record.n_tokens  # layers, K and V, heads, width, float32
    assert report.seconds > 0
    if mode == "post_prefill":
        assert report.estimated_seconds_saved == pytest.approx(-record.score_seconds)
    console = Console(record=True, width=100)
    report.show(console)
    shown = console.export_text()
    assert "protected" in shown
    assert f"kept {len(pruned.kept)} of {len(record.blocks)} blocks (25 % of blocks) by h2o" in shown


def test_text_has_the_kept_blocks_and_a_mark_where_others_were(loaded: Loaded) -> None:
    document = "One.\nTwo.\nThree.\nFour.\nFive.\n"
    text = Pruner(*loaded, Oracle(frozenset({3})), blocks="line").prune(document, 2).text
    assert text == f"One.\n{GAP}Four.\n{GAP}".strip()
    assert Pruner(*loaded, Recency(), blocks="line").prune(document, 1.0).text == document.strip()


def test_a_document_shorter_than_a_block_is_kept_whole_and_says_so(loaded: Loaded) -> None:
    for budget in (0.1, 1, Budget.share_of_tokens(0.1)):
        pruned = Pruner(*loaded, H2O()).prune("The code is 4821.", budget)
        assert pruned.kept == (0,)
        assert "nothing was dropped: the document has 1 block(s)" in pruned.report().lines()[-1]


def test_an_eviction_that_did_not_happen_is_noticed(loaded: Loaded, document: str) -> None:
    pruned = Pruner(*loaded, Recency(), blocks=16).prune(document, 0.25)
    dense = Pruner(*loaded, Recency(), blocks=16).prune(document, 1.0)
    with pytest.raises(ValueError, match=r"eviction: expected .* tokens in every layer"):
        check_eviction(pruned.record, dense.cache)
    view = copy.copy(pruned.cache.layers)
    view.keys = [torch.cat([part, part], dim=2)[:, :, : part.shape[2]] for part in view.keys]
    cache = copy.copy(pruned.cache)
    object.__setattr__(cache, "layers", view)
    with pytest.raises(ValueError, match=r"eviction: expected .* bytes .* held in memory"):
        check_eviction(pruned.record, cache)
    over = pruned.record.model_copy(update={"budget": Budget.blocks(1)})
    with pytest.raises(ValueError, match="eviction: expected at most 1 of the budget"):
        check_eviction(over, pruned.cache)
