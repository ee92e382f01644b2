"""What scoring costs: both routers' forward beside the teacher's, as contexts grow from N to 4N blocks.

Every side runs every length in every round, in an order that rotates from round to round, on one thread and on the
same batch of 32; so all sides are one file. Seconds are CPU seconds of the one thread. Weights do not change the cost,
so routers are untrained.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor
from transformers import PreTrainedModel

from keepset import seeds
from keepset.paper.bench.timing import MEDIAN, bracketed, clock, one_thread, quartiles, ratios, rotated
from keepset.paper.experiment import Difference, Experiment, Jobs, Report, run_result
from keepset.paper.result import Metric, RunResult
from keepset.paper.results import Results
from keepset.paper.table import Table
from keepset.paper.testbed.routers import build_router, router_input
from keepset.paper.testbed.tasks import sample_condition
from keepset.paper.testbed.teachers.presets import find_preset
from keepset.paper.testbed.teachers.teacher import build_teacher

NAME = "router"
MIXTURE = "five-task"
BATCH = 32
LENGTHS = (1, 2, 4)
ROUNDS = {"smoke": 2, "small": 30, "paper": 30}
KINDS = ("pooling", "chain")
"""The paper's routers."""
TEACHER = "teacher"

Seconds = dict[tuple[str, int], list[float]]
"""Side and number of blocks -> CPU seconds of one forward, round by round."""


def jobs(scale: str) -> Jobs:
    """One result."""
    return {f"{NAME}/{MIXTURE}": partial(run, scale)}


def run(scale: str) -> RunResult:
    """Measures every side at every length."""
    started = time.monotonic()
    config = find_preset(scale)(MIXTURE, 0)
    teacher = build_teacher(config).eval()
    routers = {kind: build_router(kind, config.vocabulary, config.block_width, 0).eval() for kind in KINDS}
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
        NAME,
        scale,
        started,
        at={"mixture": MIXTURE},
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
        command=f"keepset bench {NAME}",
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
    seconds: Seconds = defaultdict(list)
    works = {f"{side} {n}": (side, n) for side in sides for n in contexts}
    with one_thread():
        for side, n in works.values():
            sides[side](contexts[n])  # the first forward pays for allocations; nobody's time
        for number in range(rounds):
            for work in rotated(list(works), number):
                side, n = works[work]
                with clock(seconds[side, n]):
                    sides[side](contexts[n])
    return seconds


def metrics(seconds: Seconds) -> Iterator[Metric]:
    """Seconds of a forward, its share of the teacher's, and how it grows from the shortest to the longest context."""
    lengths = sorted({n for _, n in seconds})
    for side in dict.fromkeys(side for side, _ in seconds):
        for n in lengths:
            yield from quartiles("seconds", seconds[side, n], side=side, n_blocks=n)
            if side != TEACHER:
                shares = ratios(seconds[side, n], seconds[TEACHER, n])
                yield from quartiles("share_of_teacher", shares, side=side, n_blocks=n)
        yield from quartiles("growth", ratios(seconds[side, lengths[-1]], seconds[side, lengths[0]]), side=side)


def router_table(results: Results) -> Table:
    """One row per side and length: a forward, its share of the teacher's, and how it grows."""
    run = results.run(mixture=MIXTURE)
    lengths = run.config["n_blocks"]
    rows: list[tuple[str, ...]] = []
    for side in results.coordinates("side"):
        if rows:
            rows.append(())
        for n in lengths:
            share = bracketed(results, "share_of_teacher", 2, 1e2, side=side, n_blocks=n) if side != TEACHER else ""
            rows.append(
                (
                    side if side == TEACHER else f"{side} router",
                    f"{run.counts[f'{side}_parameters']:,}",
                    str(n),
                    bracketed(results, "seconds", 2, 1e3, side=side, n_blocks=n),
                    share,
                    bracketed(results, "growth", 1, side=side) if n == lengths[-1] else "",
                )
            )
    return Table(
        name="router-bench",
        caption=(
            f"A forward of each router and of the teacher on the same {run.config['batch']} contexts, as they grow "
            f"from {lengths[0]} to {lengths[-1]} blocks: median over rounds, quartiles in brackets. The paper: under "
            "0.3 ms and flat from 32 to 128 blocks, on a GPU, which such a small network does not fill; one CPU "
            "thread pays for every block."
        ),
        columns=("Side", "Parameters", "N", "ms", "share of the teacher's, %", f"N = {lengths[-1]} over {lengths[0]}"),
        rows=tuple(rows),
        notes=(
            f"{run.scale.capitalize()} scale; {run.counts['rounds']} rounds in one run, every side at every length in "
            "every round, in rotating order; CPU milliseconds of one thread. The paper's routers have 23K and 111K "
            "parameters, for a larger vocabulary.",
        ),
    )


def growth(results: Results) -> str:
    pooling, chain = (results.value("growth", side=side, quantile=MEDIAN) for side in KINDS)
    lengths = results.run(mixture=MIXTURE).config["n_blocks"]
    return f"{pooling:.1f}× and {chain:.1f}× from {lengths[0]} to {lengths[-1]} blocks"


EXPERIMENT = Experiment(
    name=NAME,
    place=63,
    jobs=jobs,
    reports=(
        Report(
            "Cost of a router's forward beside the teacher's, N to 4N blocks (Section 5, flat)",
            "cost",
            router_table,
            beyond=True,
        ),
    ),
    differences=(
        Difference(
            "Routers flat from 32 to 128 blocks",
            "flat, under 0.3 ms",
            growth,
            "one CPU thread pays for every block, a GPU does not notice so few; not tested",
        ),
    ),
    bench=True,
)
