"""Small models and examples on which executors are compared.

Random weights, initialised large so that hiding a block moves log-probabilities by nats, not by rounding.
"""

from collections.abc import Callable, Iterator
from itertools import chain, combinations

import torch
from torch import Tensor
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from keepset.blocks import Example, KeepSet, Span
from keepset.interventions import Ask, Mask, Operator, Overwrite, Reading, filler
from tests.tiny import SHAPE as TINY

VOCABULARY = 40
WINDOW = 6
EXACT = 1e-4
"""Log-probability, float32. Measured: below 1e-5."""
SHAPE = TINY | {"vocab_size": VOCABULARY, "bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
LAYERS = ["sliding_attention", "full_attention"]
GPT2_SHAPE = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "bos_token_id": 0, "eos_token_id": 0}
MODELS: dict[str, Callable[[], PreTrainedModel]] = {
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**SHAPE)),
    "qwen2": lambda: Qwen2ForCausalLM(Qwen2Config(**{k: v for k, v in SHAPE.items() if k != "head_dim"})),
    "qwen3": lambda: Qwen3ForCausalLM(Qwen3Config(**SHAPE)),
    "gemma3": lambda: Gemma3ForCausalLM(Gemma3TextConfig(**SHAPE, sliding_window=WINDOW, layer_types=LAYERS)),
    "mistral": lambda: MistralForCausalLM(MistralConfig(**SHAPE, sliding_window=WINDOW)),
    "gpt2": lambda: GPT2LMHeadModel(GPT2Config(vocab_size=VOCABULARY, initializer_range=0.3, **GPT2_SHAPE)),
}


def build(name: str) -> PreTrainedModel:
    with torch.random.fork_rng():
        torch.manual_seed(7)
        return MODELS[name]().eval()


def example(spans: list[tuple[int, int]], n_tokens: int, seed: int, answer: tuple[int, ...] = (5,)) -> Example:
    tokens = torch.randint(VOCABULARY, (n_tokens,), generator=torch.Generator().manual_seed(seed))
    blocks = tuple(Span(*span) for span in spans)
    return Example(tokens, blocks, Span(blocks[-1].stop, n_tokens), answer)


RAGGED = example([(2, 5), (5, 6), (8, 12), (13, 18)], 22, seed=1)
"""A prefix, gaps between blocks, blocks of one to five tokens."""
EXAMPLES = [RAGGED, example([(0, 4), (4, 8), (8, 12)], 15, seed=2), example([(0, 4), (4, 8), (8, 12)], 15, seed=3)]
CONTINUATIONS = ((5,), (7, 8, 9), (7, 3))
OPERATORS: dict[str, Operator] = {
    "mask": Mask(),
    "overwrite": Overwrite(filler(0)),
    "overwrite2": Overwrite(lambda e: [filler(1)(e)[0], filler(2)(e)[0]]),
}


def keep_sets(e: Example) -> Iterator[KeepSet]:
    numbers = range(len(e.blocks))
    return (frozenset(keep) for keep in chain.from_iterable(combinations(numbers, k) for k in range(len(numbers) + 1)))


def every_ask(examples: list[Example]) -> list[Ask]:
    return [Ask(e, keep, CONTINUATIONS) for e in examples for keep in keep_sets(e)]


def numbers(readings: list[list[Reading]]) -> Tensor:
    return torch.tensor([p for views in readings for reading in views for c in reading.log_probs for p in c])
