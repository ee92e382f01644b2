"""Peak memory of all effects on a long context: does the engine stay inside its bound?"""

import resource
import sys
import time
from functools import partial

import torch

from keepset import seeds
from keepset.blocks import Example, Span
from keepset.experiments.job import Jobs
from keepset.interventions import Effects, Fast
from keepset.models.loading import load_model
from keepset.results import Metric, RunResult, current_commit, package_versions

EXPERIMENT = "memory"
MODEL = "smollm2-135m-instruct"
TOKENS = 4_096
BLOCKS = 32
QUERY = 32


def jobs(scale: str) -> Jobs:
    return {"bench/memory": partial(run, scale)}


def run(scale: str) -> RunResult:
    """Every effect of one example of ``TOKENS`` random tokens in ``BLOCKS`` blocks, in exact mode."""
    torch.set_num_threads(1)
    model, _ = load_model(MODEL)
    loaded = peak_bytes()
    seed = seeds.INTERVENTION.seed(2)
    tokens = torch.randint(1_000, 40_000, (TOKENS,), generator=torch.Generator().manual_seed(seed))
    width = (TOKENS - QUERY) // BLOCKS
    spans = tuple(Span(i * width, (i + 1) * width) for i in range(BLOCKS))
    example = Example(tokens, spans, Span(spans[-1].stop, TOKENS), answer=(1_000,))
    executor = Fast(model)
    started = time.monotonic()
    effects = Effects([example], executor)
    measured = int(effects.hidden.measured.sum() + effects.alone.measured.sum())
    return RunResult(
        experiment=EXPERIMENT,
        scale=scale,
        command=f"keepset bench memory --scale {scale}",
        config={"model": MODEL, "dtype": str(model.dtype), "tokens": TOKENS, "blocks": BLOCKS},
        seeds={"intervention": seed},
        commit=current_commit(),
        versions=package_versions(),
        counts={"effects": measured, "tokens_computed": executor.cost.tokens, "forwards": executor.cost.forwards},
        seconds=round(time.monotonic() - started, 1),
        metrics=(
            Metric(name="peak_bytes", value=peak_bytes(), n=1),
            Metric(name="peak_bytes_after_loading", value=loaded, n=1),
        ),
    )


def peak_bytes() -> int:
    """The most memory this process has held so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
