"""kvpress, the real package (``make kvpress-test``): the same blocks as the Pruner, and scores that are kvpress's own.

Where a statistic is the same, it is compared on the same model and tokens. H2O's plain sum is no press of kvpress, but
its observed attention is that sum divided by how many rows see a token. Its SnapKV smooths over neighbouring tokens
(switched off here: blocks take that place) and always keeps its window; its Expected Attention always keeps the sinks.
"""

import pytest
import torch
from torch import Tensor

pytest.importorskip("kvpress", reason="kvpress is not installed, it needs transformers<5.3: make kvpress-test")

from kvpress import ExpectedAttentionPress, ObservedAttentionPress, SnapKVPress
from kvpress.presses.scorer_press import ScorerPress
from transformers import (
    DynamicCache,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    pipeline,
)

from keepset.integrations.kvpress import KeepsetPress
from keepset.policies import H2O, Context, ExpectedAttention, SnapKV
from keepset.pruning import Budget, Pruner
from keepset.readouts.layers import block_sums
from keepset.routers.block import BlockRouter, ReadModel
from keepset.text.prompt import lay_out
from tests.tiny import SHAPE, tiny_llama
from tests.tokenizers import byte_tokenizer, word_tokenizer

TEXT = "".join(f"The code for NARO{i} is {4821 + 37 * i}. " for i in range(12)) + "Nobody knows.\nThe rest is lost."
QUESTION = "What is the code for NARO3?"
WINDOW = 16
ARCHITECTURES = {
    "llama": (LlamaConfig, LlamaForCausalLM),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM),
}


def untrained_router(model: PreTrainedModel, blocks: str | int = "sentence", regime: str = "pre_query") -> BlockRouter:
    """One that ranks as its first weights have it."""
    torch.manual_seed(5)
    return BlockRouter(ReadModel.of(model), regime, layers=1, target="causal", blocks=blocks).eval()  # type: ignore[arg-type]


def pressed(press: KeepsetPress, model: PreTrainedModel, tokens: Tensor) -> DynamicCache:
    cache = DynamicCache()
    with press(model), torch.inference_mode():
        model.model(input_ids=tokens[None], past_key_values=cache)
    return cache


@pytest.mark.parametrize("tokenizer", [byte_tokenizer(), word_tokenizer()], ids=["template", "no template"])
@pytest.mark.parametrize("blocks", ["sentence", "line", 24])
@pytest.mark.parametrize("ratio", [0.0, 0.5, 0.75, 0.9])
def test_the_same_blocks_stay_as_the_pruner_keeps(
    tokenizer: PreTrainedTokenizerBase, blocks: str | int, ratio: float
) -> None:
    model = tiny_llama()
    router = untrained_router(model, blocks)
    press = KeepsetPress(router, tokenizer, compression_ratio=ratio)
    prompt = lay_out(tokenizer, TEXT, router.blocks)
    cache = pressed(press, model, prompt.tokens)
    pruned = Pruner(model, tokenizer, router, mode="post_prefill").prune(TEXT, Budget.share_of_tokens(1 - ratio))
    assert press.spans(prompt.tokens.tolist()) == prompt.blocks
    assert press.kept == frozenset(block.number for block in pruned.record.blocks if block.why != "dropped")
    assert ratio == 0.0 or len(press.kept) < len(prompt.blocks)
    for layer, keys, values in zip(cache.layers, pruned.cache.layers.keys, pruned.cache.layers.values, strict=True):
        torch.testing.assert_close(layer.keys, keys, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(layer.values, values, rtol=1e-5, atol=1e-6)


def test_every_layer_is_smaller_in_memory() -> None:
    model, tokenizer = tiny_llama(), byte_tokenizer()
    tokens = lay_out(tokenizer, TEXT, "sentence").tokens
    cache = pressed(KeepsetPress(untrained_router(model), tokenizer, 0.75), model, tokens)
    for layer in cache.layers:
        assert layer.keys.shape[2] < 0.35 * len(tokens)
        assert layer.keys.untyped_storage().nbytes() == layer.keys.numel() * layer.keys.element_size()


def test_kvpress_own_pipeline_answers_from_what_is_kept() -> None:
    model, tokenizer = tiny_llama(), byte_tokenizer()
    pipe = pipeline("kv-press-text-generation", model=model, tokenizer=tokenizer)
    press = KeepsetPress(untrained_router(model), tokenizer, compression_ratio=0.75)
    answers = pipe(TEXT, questions=[f"\n\n{QUESTION}", "\n\nWho?"], press=press, max_new_tokens=6)["answers"]
    assert len(press.kept) < 12
    pruned = Pruner(model, tokenizer, press.router, mode="post_prefill").prune(TEXT, Budget.share_of_tokens(0.25))
    assert answers[0] == pruned.ask(QUESTION, 6)
    whole = pipe(TEXT, question=QUESTION, press=KeepsetPress(press.router, tokenizer, 0.0), max_new_tokens=6)
    assert whole == pipe(TEXT, question=QUESTION, max_new_tokens=6)


def test_hooks_are_gone_afterwards_and_decoding_is_left_alone() -> None:
    model, tokenizer = tiny_llama(), byte_tokenizer()
    tokens = lay_out(tokenizer, TEXT, "sentence").tokens
    press = KeepsetPress(untrained_router(model), tokenizer, 0.5)
    cache = DynamicCache()
    with press(model), torch.inference_mode():
        model.model(input_ids=tokens[None], past_key_values=cache)
        kept = cache.get_seq_length()
        model.model(input_ids=tokens[:3][None], past_key_values=cache)
    assert cache.get_seq_length() == kept + 3
    assert all(not module._forward_hooks for module in model.modules())


def test_what_a_press_cannot_do_it_refuses() -> None:
    model, tokenizer = tiny_llama(), byte_tokenizer()
    router = untrained_router(model)
    with pytest.raises(ValueError, match=r"compression_ratio: expected a share in \[0, 1\), got 1"):
        KeepsetPress(router, tokenizer, compression_ratio=1.0)
    with pytest.raises(ValueError, match="question: expected one"):
        pressed(KeepsetPress(untrained_router(model, regime="query_aware"), tokenizer), model, torch.arange(9))
    with pytest.raises(ValueError, match="model: expected the one this router was trained for"):
        pressed(KeepsetPress(router, tokenizer), made("qwen2"), torch.arange(9))
    two = lay_out(tokenizer, TEXT, "sentence").tokens.expand(2, -1)
    with pytest.raises(ValueError, match="got 2 documents"), KeepsetPress(router, tokenizer)(model):
        model.model(input_ids=two, past_key_values=DynamicCache())
    with pytest.raises(ValueError, match="tokens: expected those the tokenizer writes for their own text"):
        KeepsetPress(router, tokenizer).spans([tokenizer.encode("a")[0], tokenizer.encode("code")[0], 299, 20])


def their_scores(press: ScorerPress, model: PreTrainedModel, tokens: Tensor) -> Tensor:
    """(L, H, T) of kvpress; it compresses a layer after that has attended, so no score sees what was dropped."""
    found: list[Tensor] = []
    score = press.score

    def recorded(*args: object) -> Tensor:
        scores = score(*args)
        found.append(scores[0].float())
        return scores

    press.score = recorded
    with press(model), torch.inference_mode():
        model.model(input_ids=tokens[None], past_key_values=DynamicCache())
    return torch.stack(found)


def made(name: str, attention: str = "sdpa") -> PreTrainedModel:
    config, architecture = ARCHITECTURES[name]
    torch.manual_seed(3)
    own = {"vocab_size": 400, "max_position_embeddings": 512, "attn_implementation": attention}
    return architecture(config(**SHAPE | own)).eval()


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_scores_are_those_of_kvpress(name: str) -> None:
    prompt = lay_out(byte_tokenizer(), TEXT, "sentence")
    tokens, blocks, n = prompt.tokens, prompt.blocks, len(prompt.tokens)
    context = Context(made(name, "eager"), tokens, blocks)

    seen_by = torch.arange(n, 0, -1)
    theirs = their_scores(ObservedAttentionPress(compression_ratio=0.5), context.model, tokens) * seen_by
    torch.testing.assert_close(H2O().score(context), block_sums(theirs, blocks).mean(1).sum(0), rtol=1e-4, atol=1e-5)

    context = Context(made(name), tokens, blocks)
    press = SnapKVPress(compression_ratio=0.5, window_size=WINDOW, kernel_size=1)
    theirs = their_scores(press, context.model, tokens) * WINDOW
    before = [i for i, span in enumerate(blocks) if span.stop <= n - WINDOW]
    assert len(before) > 8
    ours = SnapKV(window=WINDOW).score(context)[before]
    torch.testing.assert_close(ours, block_sums(theirs, [blocks[i] for i in before]).mean((0, 1)), rtol=1e-4, atol=1e-6)

    press = ExpectedAttentionPress(compression_ratio=0.5)
    theirs = their_scores(press, context.model, tokens)
    after = [i for i, span in enumerate(blocks) if span.start >= press.n_sink]
    assert len(after) > 8
    ours = ExpectedAttention().score(context)[after]
    torch.testing.assert_close(ours, block_sums(theirs, [blocks[i] for i in after]).mean((0, 1)), rtol=1e-4, atol=1e-6)
