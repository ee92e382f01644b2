"""What scoring costs: both routers' forward beside the teacher's, as contexts grow from N to 4N blocks.

Every side runs every length in every round, in an order that rotates from round to round, on one thread and on the
same batch of 32. Seconds are CPU seconds of the one thread. Weights do not change the cost, so routers are untrained.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from statistics import quantiles

import torch
from torch import Tensor
from transformers import PreTrainedModel

from keepset import seeds
from keepset.paper.bench.engine import rotated
from keepset.paper.experiment import Jobs, run_result
from keepset.paper.result import Metric, RunResult
from keepset.paper.testbed.routers import ROUTERS, build_router, router_input
from keepset.paper.testbed.tasks import sample_condition
from keepset.paper.testbed.teachers.presets import find_preset
from keepset.paper.testbed.teachers.teacher import build_teacher

EXPERIMENT = "router"
MIXTURE = "five-task"
BATCH = 32
LENGTHS = (1, 2, 4)
ROUNDS = {"smoke": 2, "small": 30, "paper": 30}
TEACHER = "teacher"

Seconds = dict[tuple[str, int], list[float]]
"""Side and number of blocks -> CPU seconds of one forward, round by round."""


def jobs(scale: str) -> Jobs:
    """One result."""
    return {"bench/router": partial(run, scale)}


def run(scale: str) -> RunResult:
    """Measures every side at every length."""
    started = time.monotonic()
    config = find_preset(scale)(MIXTURE, 0)
    teacher = build_teacher(config).eval()
    routers = {kind: build_router(kind, config.vocabulary, config.block_width, 0).eval() for kind in ROUTERS}
    contexts = {
        config.n_blocks * length: router_input(
            sample_condition(
                "unique", bench_seed(length), BATCH, config.n_blocks * length, config.block_width, config.vocabulary
            )
        )
        for length in LENGTHS
    }
    seconds = measure({**routers, TEACHER: partial(read, teacher)}, contexts, ROUNDS[scale])
    return run_result(
        EXPERIMENT,
        scale,
        started,
        config={
            "mixture": MIXTURE,
            "n_blocks": list(contexts),
            "block_width": config.block_width,
            "batch": BATCH,
            "threads": 1,
            "device": "cpu",
        },
        seeds={"evaluation": bench_seed(LENGTHS[0])},
        counts={
            "rounds": ROUNDS[scale],
            **{
                f"{name}_parameters": sum(p.numel() for p in module.parameters())
                for name, module in {**routers, TEACHER: teacher}.items()
            },
        },
        metrics=metrics(seconds),
        command="keepset bench router",
    )


def bench_seed(length: int) -> int:
    """Away from the seeds of the teachers' evaluation sets (run 0) and of the engine's benchmark (run 2)."""
    return seeds.EVALUATION.seed(3, length)


def read(teacher: PreTrainedModel, tokens: Tensor) -> None:
    """The teacher reads the context and answers."""
    teacher(tokens, logits_to_keep=1, use_cache=False)


@torch.no_grad()
def measure(sides: dict[str, Callable[[Tensor], object]], contexts: dict[int, Tensor], rounds: int) -> Seconds:
    """Every side on every context, once per round."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    seconds: Seconds = defaultdict(list)
    works = {f"{side} {n}": (side, n) for side in sides for n in contexts}
    try:
        for side, n in works.values():
            sides[side](contexts[n])  # the first forward pays for allocations; nobody's time
        for number in range(rounds):
            for work in rotated(list(works), number):
                side, n = works[work]
                before = time.process_time()
                sides[side](contexts[n])
                seconds[side, n].append(time.process_time() - before)
    finally:
        torch.set_num_threads(threads)
    return seconds


def metrics(seconds: Seconds) -> Iterator[Metric]:
    """Seconds of a forward, its share of the teacher's, and how it grows from the shortest to the longest context."""
    lengths = sorted({n for _, n in seconds})
    for side in dict.fromkeys(side for side, _ in seconds):
        for n in lengths:
            yield from with_quartiles(f"{side}_n{n}_seconds", seconds[side, n])
            if side != TEACHER:
                yield from with_quartiles(f"{side}_n{n}_share", ratios(seconds[side, n], seconds[TEACHER, n]))
        yield from with_quartiles(f"{side}_growth", ratios(seconds[side, lengths[-1]], seconds[side, lengths[0]]))


def ratios(first: list[float], second: list[float]) -> list[float]:
    """First over second, round by round."""
    return [a / b for a, b in zip(first, second, strict=True)]


def with_quartiles(name: str, values: list[float]) -> Iterator[Metric]:
    low, middle, high = quantiles(values, n=4, method="inclusive")
    yield Metric(name=name, value=middle, n=len(values))
    yield Metric(name=f"{name}_q25", value=low, n=len(values))
    yield Metric(name=f"{name}_q75", value=high, n=len(values))
