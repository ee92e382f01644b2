"""kvpress: a trained block router as a press.

    router = load_block_router(Path("router/"))
    press = KeepsetPress(router, tokenizer, compression_ratio=0.75)
    pipe = pipeline("kv-press-text-generation", model=model, tokenizer=tokenizer)
    pipe(context, questions=["Who ran the pier?"], press=press)["answers"]

One selection for all layers and heads, so the keys and values of dropped blocks are really let go; the router reads
what the prefill computes anyway and costs no forward of its own. What stays is what ``Pruner(model, tokenizer, router,
mode="post_prefill")`` keeps with ``Budget.share_of_tokens(1 - compression_ratio)``.

kvpress 0.5.5 needs ``transformers<5.3``: an environment of its own (``make kvpress-test``).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from kvpress import BasePress
from torch import Tensor, nn
from transformers import Cache, PreTrainedModel, PreTrainedTokenizerBase, QuantizedCache

from keepset.blocks import KeepSet, Span
from keepset.models.capabilities import sliding_windows
from keepset.pruning.budget import Budget, protected_blocks, select
from keepset.pruning.cache import kept_positions
from keepset.routers.block import BlockRouter, check_reads, score_features
from keepset.routers.features import decoder_layers, pool_blocks
from keepset.routers.trained_blocks import blocks_to_read
from keepset.text.prompt import PROBES, prompt_text, tokenise
from keepset.text.split import Blocks, split_blocks


@dataclass
class KeepsetPress(BasePress):
    """Drops the blocks that ``router`` ranks last, once, at the end of the prefill."""

    router: BlockRouter
    tokenizer: PreTrainedTokenizerBase
    compression_ratio: float = 0.75
    """Share of the document's tokens that goes, as kvpress counts it. A chat template's beginning always stays."""
    blocks: Blocks | None = None
    """How documents are cut; only for routers whose labels brought blocks of their own."""
    keep_first: bool = True
    kept: KeepSet = field(init=False, default=frozenset())
    """Blocks of the last prefill that stayed."""

    def __post_init__(self) -> None:
        if not 0 <= self.compression_ratio < 1:
            raise ValueError(f"compression_ratio: expected a share in [0, 1), got {self.compression_ratio:g}")
        self.cut = blocks_to_read(self.router.blocks, self.blocks)

    @contextmanager
    def __call__(self, model: PreTrainedModel) -> Iterator[None]:
        """Inside, a forward that fills an empty cache leaves the kept blocks in it."""
        check_reads(self.router, model, None)
        if sliding_windows(model) is not None:
            raise ValueError(f"{type(model).__name__}: expected full attention in every layer, got sliding windows")
        seen: dict[str, Tensor] = {}

        def embedded(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            seen["tokens"], seen["embedded"] = inputs[0], output

        def hidden(module: nn.Module, inputs: object, output: Tensor | tuple[Tensor, ...]) -> None:
            seen["hidden"] = output if isinstance(output, Tensor) else output[0]

        def route(module: nn.Module, inputs: object, options: dict[str, Any], output: Any) -> None:
            cache = options.get("past_key_values")
            if cache is not None and cache.get_seq_length() == seen["tokens"].shape[1]:  # else it decodes
                self.drop(cache, seen["tokens"], seen["embedded"], seen["hidden"])

        handles = [
            model.get_input_embeddings().register_forward_hook(embedded),
            decoder_layers(model)[self.router.layers - 1].register_forward_hook(hidden),
            model.base_model.register_forward_hook(route, with_kwargs=True),
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    @torch.no_grad()
    def drop(self, cache: Cache, tokens: Tensor, embedded: Tensor, hidden: Tensor) -> None:
        """Routes (1, T) ``tokens`` by the two (1, T, D) states, and gathers every layer of ``cache``."""
        if len(tokens) != 1 or isinstance(cache, QuantizedCache):
            raise ValueError(
                f"prefill: expected one document and a cache that is not quantised, got {len(tokens)} documents and "
                f"{type(cache).__name__}; press them one by one"
            )
        spans = self.spans(tokens[0].tolist())
        lengths, budget = [len(span) for span in spans], Budget.share_of_tokens(1 - self.compression_ratio)
        scores = score_features(self.router, pool_blocks(embedded, hidden, spans))
        self.kept = select(scores, lengths, budget, protected_blocks(lengths, budget, self.keep_first, 0))
        positions = kept_positions(tokens.shape[1], spans, self.kept).to(tokens.device)
        layers: list[Any] = cache.layers  # of full attention, all filled
        for layer in layers:
            layer.keys, layer.values = (part.index_select(2, positions) for part in (layer.keys, layer.values))

    def spans(self, tokens: list[int]) -> tuple[Span, ...]:
        """The blocks of a document that follows the beginning of the chat template, or the first token, or nothing."""
        text = self.tokenizer.decode(tokens, clean_up_tokenization_spaces=False)
        assert isinstance(text, str)
        mark = PROBES[0]
        first = self.tokenizer.bos_token or ""
        if self.tokenizer.chat_template:
            whole, start = prompt_text(self.tokenizer, mark, mark)
            first = whole[:start]
        elif text.startswith(first):  # the tokenizer writes it by itself
            text, first = text[len(first) :], ""
        start = len(first) if text.startswith(first) else 0
        places = [(start + begin, start + stop) for begin, stop in split_blocks(text[start:], self.cut, self.tokenizer)]
        again, spans = tokenise(self.tokenizer, text, places)
        if again != tokens:
            raise ValueError(
                "tokens: expected those the tokenizer writes for their own text, got others; pass the tokenizer that "
                "wrote them, and a document cut at none of its tokens"
            )
        return spans
