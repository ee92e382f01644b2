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
    """The largest attention that any token of a block receives, in any layer and head, while the context is repeated.

    The context, then a request to repeat it, then the repetition itself, teacher-forced, one chunk after another.
    KVzip scores every key and value of every head on its own; one selection of blocks takes the maximum over all of
    them. Each chunk is a forward of the whole context and the chunk: a context of one chunk costs two prefills.
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
        length = len(context.tokens)
        received = torch.zeros(length)

        def read(layer: Layer) -> None:
            for _, attention in layer.chunks(Span(length, layer.query.shape[2])):
                torch.maximum(received, attention[..., :length].amax((0, 1, 2)).cpu(), out=received)

        for repetition in self._repetitions(context):
            tokens = torch.cat([context.tokens, repetition])[None]
            check_inputs(context.model, tokens, context.blocks)
            visit_layers(context.model, tokens, read)
        return torch.stack([received[span.start : span.stop].max() for span in context.blocks])

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
