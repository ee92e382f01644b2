"""Runs in kvpress's environment: which answers survive its KVzip. Reads a question sheet, writes outcomes; both JSON.

    python peer.py sheet.json outcomes.json

    sheet       {"model": folder, "ratios": [0.1, ...], "documents": [{"tokens": [...], "questions": [...]}, ...]}
                a question is {"tokens": what follows the document, "answer": its tokens}
    outcomes    {"dense": [[true, ...], ...], "kept": {"0.1": [[true, ...], ...]}, "seconds": {...}, "versions": {...}}

An answer counts when every token of it is the most likely one after the true ones before it, keepset's own rule.
"""

import json
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, DynamicCache

Sheet = dict[str, Any]


@torch.inference_mode()
def survives(model: Any, press: Any, document: Sheet) -> tuple[list[bool], float]:
    """Per question of a document read under ``press``; and the CPU seconds of reading and compressing it."""
    cache, began = DynamicCache(), time.process_time()
    with press(model) if press is not None else nullcontext():
        model.model(input_ids=torch.tensor([document["tokens"]]), past_key_values=cache)
    seconds = time.process_time() - began
    length, found = cache.get_seq_length(), []
    for question in document["questions"]:
        answer = question["answer"]
        read = torch.tensor([[*question["tokens"], *answer[:-1]]])
        positions = torch.arange(length, length + read.shape[1])[None]
        logits = model(input_ids=read, past_key_values=cache, position_ids=positions, logits_to_keep=len(answer)).logits
        found.append(logits[0].argmax(-1).tolist() == answer)
        cache.crop(length - cache.get_seq_length())  # negative: how many to remove
    return found, seconds


def main(arguments: Sequence[str]) -> None:
    from kvpress import KVzipPress  # only where this runs

    source, target = map(Path, arguments)
    sheet: Sheet = json.loads(source.read_text(encoding="utf-8"))
    torch.set_num_threads(1)
    model = AutoModelForCausalLM.from_pretrained(sheet["model"], dtype=torch.float32, local_files_only=True).eval()
    presses = {"dense": None} | {str(ratio): KVzipPress(compression_ratio=1 - ratio) for ratio in sheet["ratios"]}
    found: dict[str, list[list[bool]]] = {}
    seconds: dict[str, float] = {}
    for name, press in presses.items():
        outcomes = [survives(model, press, document) for document in sheet["documents"]]
        found[name], seconds[name] = [each for each, _ in outcomes], sum(spent for _, spent in outcomes)
    versions = {package: version(package) for package in ("kvpress", "transformers", "torch")}
    dense = found.pop("dense")
    written = {"dense": dense, "kept": found, "seconds": seconds, "versions": versions}
    target.write_text(json.dumps(written), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
