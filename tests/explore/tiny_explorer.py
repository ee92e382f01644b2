"""A page whose model is untrained: the same code in milliseconds."""

from keepset.explore.explorer import Explorer, Limits
from tests.tiny import tiny_llama
from tests.tiny_compressor import tiny_compressor
from tests.tokenizers import byte_tokenizer


def tiny_explorer(limits: Limits | None = None) -> Explorer:
    return Explorer(tiny_llama(positions=4096), byte_tokenizer(), "tiny", tiny_compressor(), limits or Limits())
