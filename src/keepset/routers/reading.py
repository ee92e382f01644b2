"""A text as the first layers of a reader see it, token by token; what is longer than a window is read in windows.

    window 0    <sink> t0 ............ t895
    window 1    <sink> t768 .. t895 | t896 ............ t1662      what stands before the bar is read again, not kept

The reader need not be the model that answers. Its first token collects attention and grows far beyond all others, so a
window begins with one that belongs to no text.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from keepset.routers.features import hidden_after

WINDOW = 896
"""Tokens read at a time: a matter of cost, since attention grows with the square; the first layers look nearby."""
LEAD = 128
"""Tokens of the window before that are read again."""


def sink_token(tokenizer: PreTrainedTokenizerBase) -> int:
    """A token that is in no text: the one that begins texts, else the one that ends them."""
    found = tokenizer.bos_token_id if tokenizer.bos_token_id is not None else tokenizer.eos_token_id
    if not isinstance(found, int):
        raise ValueError(f"{type(tokenizer).__name__}: expected a token that begins or ends a text, got {found}")
    return found


@torch.inference_mode()
def read_states(model: PreTrainedModel, tokens: Sequence[int], layers: int, sink: int) -> Tensor:
    """(T, D) float32 on the CPU: the hidden state of every token after ``layers`` layers."""
    states = []
    for start in range(0, len(tokens), WINDOW):
        before = max(0, start - LEAD)
        window = torch.tensor([[sink, *tokens[before : start + WINDOW]]], device=model.device)
        states.append(hidden_after(model, window, layers)[0, 1 + start - before :].float().cpu())
    if not states:
        raise ValueError("tokens: expected at least one to read, got none")
    return torch.cat(states)


@torch.inference_mode()
def read_short(model: PreTrainedModel, texts: Sequence[Sequence[int]], layers: int, sink: int) -> list[Tensor]:
    """(T, D) per text, as ``read_states``; texts of one window at most, read together."""
    width = 1 + max(map(len, texts))
    rows = [[sink, *tokens, *[sink] * (width - 1 - len(tokens))] for tokens in texts]  # nobody looks to the right
    hidden = hidden_after(model, torch.tensor(rows, device=model.device), layers).float().cpu()
    return [states[1 : 1 + len(tokens)] for states, tokens in zip(hidden, texts, strict=True)]
