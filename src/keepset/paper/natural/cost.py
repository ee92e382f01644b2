"""CPU seconds to compress a text, beside reading all of it with the same model."""

import time
from collections.abc import Callable

import torch

from keepset import seeds
from keepset.compression.compressor import Compressor
from keepset.paper.bench.models import loaded
from keepset.paper.bench.timing import one_thread
from keepset.paper.experiment import run_result
from keepset.paper.result import Metric, RunResult
from keepset.routers.text import TextRouter
from keepset.text.prompt import encode

RUNS = 3
SENTENCES = (
    "The council met in the old hall and talked about the harbour for most of the morning.",
    "In 1931 the pier was rebuilt with stone from the quarry at Hale, which cost 4,200 crowns.",
    "Nobody could say who had paid for it.",
    "Dr. Vane, who ran the ferry, asked for a second landing; the council put it off until June.",
)
QUESTION = "What did the pier cost?"


def run_cost(experiment: str, scale: str, reader: str, router: TextRouter, tokens: int) -> RunResult:
    """One thread; the best of a few runs, since others may use the machine."""
    started = time.monotonic()
    model, tokenizer = loaded(reader)
    compressor = Compressor(router)
    compressor.__dict__["loaded"] = (model, tokenizer)  # already here: loading is not what is measured
    text = ""
    while len(encode(tokenizer, text)[0]) < tokens:
        text += " ".join(SENTENCES[i % len(SENTENCES)] for i in range(len(text) % 7, len(text) % 7 + 6)) + "\n\n"
    ids = encode(tokenizer, text)[0]
    read = torch.tensor(ids[: model.config.max_position_embeddings])[None]

    @torch.inference_mode()
    def prefill() -> None:
        model(read, use_cache=True, logits_to_keep=1)

    with one_thread():
        spent = {
            "compress": best(lambda: compressor.compress(text, 0.25)),
            "compress for a question": best(lambda: compressor.compress(text, 0.25, QUESTION)),
            "prefill": best(prefill),
        }
    return run_result(
        experiment,
        scale,
        started,
        at={"kind": "cost"},
        config={"reader": reader, "threads": 1, "runs": RUNS, "dtype": str(model.dtype).removeprefix("torch.")},
        seeds={"statistics": seeds.STATISTICS.seed(0)},
        counts={"tokens": len(ids), "words": len(text.split())},
        metrics=[
            Metric(what="cpu_seconds", at={"doing": doing}, value=seconds, n=RUNS) for doing, seconds in spent.items()
        ],
        command=f"keepset bench {experiment} --only cost",
    )


def best(work: Callable[[], object]) -> float:
    """CPU seconds of the quickest run."""
    found = []
    for _ in range(RUNS):
        started = time.process_time()
        work()
        found.append(time.process_time() - started)
    return min(found)
