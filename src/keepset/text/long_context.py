"""Every long-document task by name, and documents of it at a length in the model's own tokens."""

import zlib
from typing import Literal

import numpy as np
from transformers import PreTrainedTokenizerBase

from keepset.seeds import DRAWS, SeedRange
from keepset.text.document import Document, DocumentTask, token_counter, write_document
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

CONTROLLED = {"register_log_any": "register_log"}
"""A control, and the task whose documents it asks something else."""


def sample_documents(
    task: str,
    tokenizer: PreTrainedTokenizerBase,
    seed: int,
    length: int,
    n: int = 1,
    blocks: Literal["line"] | int = "line",
) -> list[Document]:
    """``n`` documents of whole lines, each of at most ``length`` tokens; document i depends on ``seed`` and i only.

    With a number of tokens as ``blocks``, a document is exactly ``length`` tokens of such blocks. ``seed`` comes from
    ``document_seed``, or from another draw of ``seeds.ROUTER_DOCUMENTS`` (to train) or ``seeds.EVALUATION``.
    """
    if task not in LONG_CONTEXT_TASKS:
        raise ValueError(f"unknown long-context task {task!r}; expected one of {', '.join(LONG_CONTEXT_TASKS)}")
    if blocks != "line" and (blocks < 1 or length < blocks or length % blocks):
        raise ValueError(f"length: expected a multiple of {blocks} (the tokens of a block), got {length}")
    documents = []
    for i in range(n):
        rng = np.random.default_rng((seed, i))
        draft = LONG_CONTEXT_TASKS[task](rng, length, token_counter(tokenizer))
        documents.append(write_document(draft, tokenizer, rng, length, blocks))
    return documents


def document_seed(seed_range: SeedRange, run: int, task: str, length: int) -> int:
    """Documents of another task or length have other keys, numbers and places; a control has those of its task."""
    drawn = zlib.crc32(f"{CONTROLLED.get(task, task)} {length}".encode()) % DRAWS
    return seed_range.seed(run, drawn)
