"""Peak memory on long contexts: do all effects, every readout and every policy stay inside their bounds?"""

import resource
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from keepset import seeds
from keepset.blocks import Example, Span
from keepset.interventions import Effects, Fast
from keepset.models.loading import load_model
from keepset.paper.experiment import Jobs, run_result
from keepset.paper.result import Metric, RunResult
from keepset.policies import Context, KVzip, MomentKV, build_policy, score_checked
from keepset.readouts import (
    accumulated_attention,
    answer_attention,
    attention_rollout,
    backward_trace,
    input_saliency,
    output_reconstruction,
    window_attention,
)

EXPERIMENT = "memory"
MODEL = "smollm2-135m-instruct"
TOKENS = 4_096
BLOCKS = 32
QUERY = 32
SEED = seeds.INTERVENTION.seed(2)


READOUTS = "memory-readouts"
READOUT_TOKENS = 8_192
READOUT_BLOCKS = 128
ANSWER = 1_000

POLICIES_BENCH = "memory-policies"
POLICY_TOKENS = {MomentKV.name: 8_192, KVzip.name: 6_016}
"""H2O, SnapKV and ReST-KV are readouts. KVzip reads a chunk of the context again; the model has 8,192 positions."""
STATUS = Path("/proc/self/status")
CLEAR_REFS = Path("/proc/self/clear_refs")


def jobs(scale: str) -> Jobs:
    return {
        "bench/memory": partial(run, scale),
        "bench/memory-readouts": partial(run_readouts, scale),
        "bench/memory-policies": partial(run_policies, scale),
    }


def run(scale: str) -> RunResult:
    """Every effect of one example of ``TOKENS`` random tokens in ``BLOCKS`` blocks, in exact mode."""
    torch.set_num_threads(1)
    model, _ = load_model(MODEL)
    loaded = peak_bytes()
    example = random_example(TOKENS, BLOCKS)
    executor = Fast(model)
    started = time.monotonic()
    effects = Effects([example], executor)
    measured = int(effects.hidden.measured.sum() + effects.alone.measured.sum())
    return run_result(
        EXPERIMENT,
        scale,
        started,
        command="keepset bench memory",
        config={"model": MODEL, "dtype": str(model.dtype), "tokens": TOKENS, "blocks": BLOCKS},
        seeds={"intervention": SEED},
        counts={"effects": measured, "tokens_computed": executor.cost.tokens, "forwards": executor.cost.forwards},
        metrics=(
            Metric(name="peak_bytes", value=peak_bytes(), n=1),
            Metric(name="peak_bytes_after_loading", value=loaded, n=1),
        ),
    )


def run_readouts(scale: str) -> RunResult:
    """Every readout of one example, one after another; peaks only grow, so the last bounds them all."""
    torch.set_num_threads(1)
    model, _ = load_model(MODEL)
    example = random_example(READOUT_TOKENS, READOUT_BLOCKS)
    tokens, blocks = example.tokens[None], example.blocks
    readouts: dict[str, Callable[[], Tensor]] = {
        "answer_attention": partial(answer_attention, model, tokens, blocks),
        "window_attention": partial(window_attention, model, tokens, blocks, example.query),
        "accumulated_attention": partial(accumulated_attention, model, tokens, blocks),
        "output_reconstruction": partial(output_reconstruction, model, tokens, blocks, example.query),
        "input_saliency": partial(input_saliency, model, tokens, blocks, torch.tensor([[ANSWER]])),
        "attention_rollout": partial(attention_rollout, model, tokens, blocks),
        "backward_trace": partial(backward_trace, model, tokens, blocks),
    }
    started = time.monotonic()
    metrics = [Metric(name="peak_bytes_after_loading", value=peak_bytes(), n=1)]
    for name, readout in readouts.items():
        began = time.process_time()
        if not readout().isfinite().all():
            raise FloatingPointError(f"{name}: expected finite scores, got others")
        metrics.append(Metric(name=f"{name}_seconds", value=time.process_time() - began, n=1))
        metrics.append(Metric(name=f"{name}_peak_bytes", value=peak_bytes(), n=1))
    return run_result(
        READOUTS,
        scale,
        started,
        command="keepset bench memory",
        config={"model": MODEL, "dtype": str(model.dtype), "tokens": READOUT_TOKENS, "blocks": READOUT_BLOCKS},
        seeds={"intervention": SEED},
        counts={"readouts": len(readouts)},
        metrics=metrics,
    )


def run_policies(scale: str) -> RunResult:
    """Every policy that reads the whole model, and is not a readout alone, ranks the blocks of one long context."""
    torch.set_num_threads(1)
    model, tokenizer = load_model(MODEL)
    started = time.monotonic()
    metrics = []
    for name, n_tokens in POLICY_TOKENS.items():
        example = random_example(n_tokens, READOUT_BLOCKS)
        context = Context(model, example.tokens, example.blocks)
        forget_peak()
        metrics.append(Metric(name=f"{name}_peak_bytes_before", value=peak_bytes(), n=1))
        began = time.process_time()
        score_checked(build_policy(name, tokenizer), context)
        metrics.append(Metric(name=f"{name}_seconds", value=time.process_time() - began, n=1))
        metrics.append(Metric(name=f"{name}_peak_bytes", value=peak_bytes(), n=1))
    return run_result(
        POLICIES_BENCH,
        scale,
        started,
        command="keepset bench memory",
        config={
            "model": MODEL,
            "dtype": str(model.dtype),
            "blocks": READOUT_BLOCKS,
            **{f"{name}_tokens": n_tokens for name, n_tokens in POLICY_TOKENS.items()},
        },
        seeds={"intervention": SEED},
        counts={"policies": len(POLICY_TOKENS)},
        metrics=metrics,
    )


def random_example(n_tokens: int, n_blocks: int) -> Example:
    """One example of random tokens; what they say costs nothing."""
    tokens = torch.randint(1_000, 40_000, (n_tokens,), generator=torch.Generator().manual_seed(SEED))
    width = (n_tokens - QUERY) // n_blocks
    spans = tuple(Span(i * width, (i + 1) * width) for i in range(n_blocks))
    return Example(tokens, spans, Span(spans[-1].stop, n_tokens), answer=(ANSWER,))


def forget_peak() -> None:
    """Lets the peak start at what is held now, where the system can: what came before may have held more."""
    if CLEAR_REFS.exists():
        CLEAR_REFS.write_text("5")


def peak_bytes() -> int:
    """The most memory this process has held: what ``getrusage`` says on Linux begins with the peak of its parent."""
    if STATUS.exists():
        (line,) = (line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
