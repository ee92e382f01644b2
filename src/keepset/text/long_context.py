"""Every long-document task by name, and documents of it at a length in the model's own tokens."""

import numpy as np
from transformers import PreTrainedTokenizerBase

from keepset.text.document import BLOCK_TOKENS, Document, DocumentTask, token_counter, write_document
from keepset.text.register_log import register_log, register_log_any
from keepset.text.ruler import multikey, multikey_lines, single, variable_tracking

LONG_CONTEXT_TASKS: dict[str, DocumentTask] = {
    "single": single,
    "multikey": multikey,
    "multikey_lines": multikey_lines,
    "variable_tracking": variable_tracking,
    "register_log": register_log,
    "register_log_any": register_log_any,
}


def sample_documents(
    task: str, tokenizer: PreTrainedTokenizerBase, seed: int, length: int, n: int = 1, block_tokens: int = BLOCK_TOKENS
) -> list[Document]:
    """``n`` documents of exactly ``length`` tokens, in blocks; document i depends on ``seed`` and i only.

    Take ``seed`` from ``seeds.ROUTER_DOCUMENTS`` to train on and from ``seeds.EVALUATION`` to evaluate.
    """
    if task not in LONG_CONTEXT_TASKS:
        raise ValueError(f"unknown long-context task {task!r}; expected one of {', '.join(LONG_CONTEXT_TASKS)}")
    if block_tokens < 1 or length < block_tokens or length % block_tokens:
        raise ValueError(f"length: expected a multiple of {block_tokens} (the tokens of a block), got {length}")
    documents = []
    for i in range(n):
        rng = np.random.default_rng((seed, i))
        draft = LONG_CONTEXT_TASKS[task](rng, length, token_counter(tokenizer))
        documents.append(write_document(draft, tokenizer, rng, length, block_tokens))
    return documents
