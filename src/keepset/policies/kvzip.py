"""KVzip: the blocks the model looks at while it repeats the context."""

from collections.abc import Iterator

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from keepset.blocks import Span
from keepset.policies.policy import PRE_QUERY, Context
from keepset.readouts.layers import Layer, check_inputs, visit_layers
from keepset.text.prompt import SEPARATOR, chat_prompt

CHUNK_TOKENS = 2_048
"""Context repeated at a time, as in KVzip: small models lose their place in longer ones."""
HINT_TOKENS = 8
"""The end of the chunk before, shown so that the model knows where to go on."""
FIRST = "Repeat the previous context exactly."
LATER = "Repeat the part of the previous context exactly, starting with"


class KVzip:
    """The most attention any token of a block receives in a head while the context is repeated, mean over all heads.

    The context, then a request to repeat it, then the repetition itself, teacher-forced, one chunk after another.
    KVzip scores every key and value of every head on its own: the maximum over the repetition and over the query heads
    that share the key. One selection of blocks takes the best token of a block and the mean over heads and layers, or
    the maximum (``kvzip_max``). Each chunk is a forward of the whole context and the chunk: a context of one chunk is
    read about twice, and the attention of every row is looked at.
    """

    name = "kvzip"
    title = "KVzip"
    regimes = PRE_QUERY

    def __init__(self, tokenizer: PreTrainedTokenizerBase, chunk_tokens: int = CHUNK_TOKENS) -> None:
        if chunk_tokens < 1:
            raise ValueError(f"chunk_tokens: expected at least 1, got {chunk_tokens}")
        self.tokenizer = tokenizer
        self.chunk_tokens = chunk_tokens

    def score(self, context: Context) -> Tensor:
        return self.head_scores(context).mean((0, 1))

    def head_scores(self, context: Context) -> Tensor:
        """(L, H, N) of every block: its best token."""
        tokens = self.token_scores(context)
        return torch.stack([tokens[..., span.start : span.stop].amax(-1) for span in context.blocks], dim=-1)

    def token_scores(self, context: Context) -> Tensor:
        """(L, H, T) of every key that is kept or dropped, as KVzip scores it; H are the heads that hold keys."""
        length = len(context.tokens)
        layers: list[Tensor] = []

        def read(layer: Layer) -> None:
            received = torch.zeros(layer.key.shape[1], length)
            for _, attention in layer.chunks(Span(length, layer.query.shape[2])):
                looked = attention[0, :, :, :length].amax(1).unflatten(0, (len(received), -1)).amax(1)
                torch.maximum(received, looked.cpu(), out=received)
            layers.append(received)

        best: Tensor | None = None
        for repetition in self._repetitions(context):
            tokens = torch.cat([context.tokens, repetition])[None]
            check_inputs(context.model, tokens, context.blocks)
            layers.clear()
            visit_layers(context.model, tokens, read)
            found = torch.stack(layers)
            best = found if best is None else torch.maximum(best, found)
        assert best is not None, "a context has a token to repeat"
        return best

    def _repetitions(self, context: Context) -> Iterator[Tensor]:
        """What follows the context, chunk by chunk: the request, and the part of the context it asks for."""
        repeated = context.tokens[context.blocks[0].start : context.blocks[-1].stop]
        turn = ""
        if self.tokenizer.chat_template:
            prompt, start = chat_prompt(self.tokenizer, FIRST)
            turn = prompt[start + len(FIRST) :]
        for start in range(0, len(repeated), self.chunk_tokens):
            hint = repeated[max(0, start - HINT_TOKENS) : start]
            request = SEPARATOR + (FIRST if start == 0 else f"{LATER} ")
            asked = [self._encode(request), hint, self._encode(turn or SEPARATOR)]
            yield torch.cat([*asked, repeated[start : start + self.chunk_tokens]])

    def _encode(self, text: str) -> Tensor:
        return torch.tensor(self.tokenizer(text, add_special_tokens=False).input_ids, dtype=torch.long)
