"""Tokenizers for tests: two small ones trained on the spot, and those of the bundled models."""

import lzma
import shutil
import tempfile
from functools import cache
from pathlib import Path

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from keepset.models.bundled import fetched

CHAT = (
    "{% for m in messages %}<|start|>{{ m['role'] }}\n{{ m['content'] }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)
STORED = Path(__file__).parent / "data" / "tokenizers"


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """Byte-level BPE as in Llama 3 or Qwen: a space begins the next word. With a chat template, without <bos>."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<|start|>", "<|end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(["The code for NARO is now 4821. What is the code for BELU?\nAnswer"] * 3, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, chat_template=CHAT)


def word_tokenizer() -> PreTrainedTokenizerFast:
    """Pieces as in Gemma: spaces are marks of their own words, digits are single, <bos> comes first. No template."""
    words = ["▁The", "▁code", "▁for", "▁is", "▁now", "▁What", "▁the", "▁", ".", "?", ":", "\n", "Question", "Answer"]
    letters = list("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")
    vocabulary = {piece: i for i, piece in enumerate(["<unk>", "<bos>", *words, *letters])}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="<unk>", continuing_subword_prefix=""))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Metaspace(prepend_scheme="never"), pre_tokenizers.Digits(individual_digits=True)]
    )
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="never")
    tokenizer.post_processor = processors.TemplateProcessing(single="<bos> $A", special_tokens=[("<bos>", 1)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<bos>", unk_token="<unk>")


@cache
def real_tokenizer(name: str) -> PreTrainedTokenizerBase:
    """A bundled model's own, from the files beside the tests; Gemma's only where the model is fetched."""
    stored = STORED / name
    if not stored.is_dir():
        folder = fetched(name)
        if folder is None:
            pytest.skip(f"{name} is not fetched on this machine")
        found: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder)
        return found
    with tempfile.TemporaryDirectory() as unpacked:
        for path in stored.iterdir():
            if path.suffix == ".xz":
                (Path(unpacked) / path.stem).write_bytes(lzma.decompress(path.read_bytes()))
            else:
                shutil.copy(path, unpacked)
        found = AutoTokenizer.from_pretrained(unpacked)
    return found
