"""The same model has one fingerprint, wherever it was; another has another."""

from pathlib import Path

import torch

from keepset.models.fingerprint import fingerprint
from keepset.models.loading import load_model
from keepset.paper.bench.models import tiny_model


def test_saving_and_loading_keep_the_fingerprint(tmp_path: Path) -> None:
    model, tokenizer = tiny_model()
    before = fingerprint(model, tokenizer)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    tokenizer(["a", "a longer text"], padding=False, truncation=True, max_length=4)
    assert fingerprint(model, tokenizer) == before
    assert fingerprint(*load_model(tmp_path, dtype="float32")) == before


def test_other_weights_or_words_change_it() -> None:
    model, tokenizer = tiny_model()
    found = {fingerprint(model, tokenizer)}
    with torch.no_grad():
        model.lm_head.weight += 1e-3
    found.add(fingerprint(model, tokenizer))
    tokenizer.chat_template = None
    found.add(fingerprint(model, tokenizer))
    tokenizer.add_tokens(["NARO"])
    found.add(fingerprint(model, tokenizer))
    assert len(found) == 4
