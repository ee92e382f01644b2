"""Peak memory on long contexts: do all effects, every readout and every policy stay inside their bounds?

One file for the effects, one per readout and one per policy, each measured in a process of its own; a new policy is
measured alone. Random tokens: what they say costs nothing.
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from transformers import PreTrainedModel

from keepset import seeds
from keepset.blocks import Example, Span
from keepset.interventions import Effects, Fast
from keepset.paper.bench.models import TINY, loaded
from keepset.paper.bench.peak import forget_peak, in_own_process, peak_bytes
from keepset.paper.bench.timing import one_thread, shown_seconds
from keepset.paper.experiment import Experiment, Jobs, Report, run_result
from keepset.paper.result import At, Metric, RunResult
from keepset.paper.results import Results
from keepset.paper.table import Table
from keepset.policies import POLICIES, Context, KVzip, KVzipMax, Policy, build_policy, score_checked
from keepset.readouts import READOUTS

NAME = "memory"
SEED = seeds.INTERVENTION.seed(2)
QUERY = 32
ANSWER = 1_000
EFFECTS, READOUT, POLICY = "effects", "readout", "policy"
"""Kinds of run."""

READ_AS = {"h2o": "accumulated", "snapkv": "window", "restkv": "reconstruction"}
"""Policies that are one readout and nothing else: measured as that."""
REPEATING = (KVzip.name, KVzipMax.name)
"""Policies that read a chunk of the context again."""
BLIND = ("bm25", "words", "recency", "random")
"""Policies that do not read the model."""


@dataclass(frozen=True)
class Sizes:
    """Tokens and blocks of each kind of run."""

    model: str
    effects: tuple[int, int]
    scores: tuple[int, int]
    """Of readouts and policies."""
    kvzip: int
    """Tokens for KVzip, which reads a chunk of the context again: both have to fit the model's positions."""

    def of(self, kind: str, name: str) -> tuple[int, int]:
        tokens, blocks = self.effects if kind == EFFECTS else self.scores
        return (self.kvzip if name in REPEATING else tokens), blocks


SMOLLM = Sizes("smollm2-135m-instruct", (4_096, 32), (8_192, 128), 6_016)
SIZES = {"smoke": Sizes(TINY, (160, 4), (160, 4), 128), "small": SMOLLM, "paper": SMOLLM}


def jobs(scale: str) -> Jobs:
    """All effects; each readout; each policy that reads the model and is not a readout alone."""
    policies = [name for name in POLICIES if name not in (*READ_AS, *BLIND)]
    return {
        f"{NAME}/{EFFECTS}": partial(run, scale, EFFECTS),
        **{f"{NAME}/{READOUT}-{name}": partial(run, scale, READOUT, name) for name in READOUTS},
        **{f"{NAME}/{POLICY}-{name}": partial(run, scale, POLICY, name) for name in policies},
    }


def run(scale: str, kind: str, name: str = "") -> RunResult:
    """One thing in a process of its own."""
    started = time.monotonic()
    sizes = SIZES[scale]
    n_tokens, n_blocks = sizes.of(kind, name)
    measured = in_own_process(f"{kind} {name}".strip(), __name__, print_memory.__name__, scale, kind, name)
    at: At = {"kind": kind} if kind == EFFECTS else {"kind": kind, kind: name}
    return run_result(
        NAME,
        scale,
        started,
        at=at,
        command=f"keepset bench {NAME}",
        config={"model": sizes.model, "dtype": measured.pop("dtype"), "tokens": n_tokens, "blocks": n_blocks},
        seeds={"intervention": SEED},
        counts=measured.pop("counts"),
        metrics=[Metric(what=what, value=value, n=1) for what, value in measured.items()],
    )


def print_memory(scale: str, kind: str, name: str) -> None:
    """Does what is measured; peak bytes, those with the model alone, CPU and wall seconds, as JSON."""
    sizes = SIZES[scale]
    model, tokenizer = loaded(sizes.model)
    example = random_example(model, *sizes.of(kind, name))
    executor = Fast(model)
    works: dict[str, Callable[[], Tensor]] = {
        EFFECTS: lambda: all_effects(example, executor),
        READOUT: lambda: read_out(name, model, example),
        POLICY: lambda: ranked(build_policy(name, tokenizer), model, example),
    }
    with one_thread():
        forget_peak()
        before, wall, seconds = peak_bytes(), time.monotonic(), time.process_time()
        scores = works[kind]()
        seconds, wall, peak = time.process_time() - seconds, time.monotonic() - wall, peak_bytes()
    if not scores.isfinite().all():
        raise FloatingPointError(f"{kind} {name}: expected finite scores, got others")
    counts = {"scores": scores.numel()}
    if kind == EFFECTS:
        counts = {
            "effects": scores.numel(),
            "tokens_computed": executor.cost.tokens,
            "forwards": executor.cost.forwards,
        }
    found = {"peak_bytes": peak, "peak_bytes_before": before, "seconds": seconds, "wall_seconds": wall}
    print(json.dumps({**found, "dtype": str(model.dtype), "counts": counts}))


def all_effects(example: Example, executor: Fast) -> Tensor:
    """(2N,) every block hidden and every block alone, exactly."""
    effects = Effects([example], executor)
    return torch.cat([effects.hidden.log_prob[0], effects.alone.log_prob[0]])


def read_out(name: str, model: PreTrainedModel, example: Example) -> Tensor:
    """A readout's scores, given what it asks for beside the blocks."""
    asked = {"window": example.query, "reconstruction": example.query, "saliency": torch.tensor([example.answer])}
    return READOUTS[name](model, example.tokens[None], example.blocks, *([asked[name]] if name in asked else []))


def ranked(policy: Policy, model: PreTrainedModel, example: Example) -> Tensor:
    """(N,) a policy's scores, with a question where it needs one."""
    question = None if "pre_query" in policy.regimes else example.tokens[example.query.start :]
    tokens = example.tokens if question is None else example.tokens[: example.query.start]
    return score_checked(policy, Context(model, tokens, example.blocks, question))


def random_example(model: PreTrainedModel, n_tokens: int, n_blocks: int) -> Example:
    """One example of random tokens, of the words in the middle of a vocabulary."""
    low, high = (1_000, 40_000) if model.config.vocab_size >= 40_000 else (0, model.config.vocab_size)
    tokens = torch.randint(low, high, (n_tokens,), generator=torch.Generator().manual_seed(SEED))
    width = (n_tokens - QUERY) // n_blocks
    spans = tuple(Span(i * width, (i + 1) * width) for i in range(n_blocks))
    return Example(tokens, spans, Span(spans[-1].stop, n_tokens), answer=(min(ANSWER, high - 1),))


def memory_table(results: Results) -> Table:
    """One row for each thing that was run."""
    effects = results.run(kind=EFFECTS)
    rows: list[tuple[str, ...]] = [
        row(results, effects, f"all effects of {effects.config['blocks']} blocks", "wall_seconds")
    ]
    readouts, policies = runs_of(results, READOUT, list(READOUTS)), runs_of(results, POLICY, list(POLICIES))
    rows += [(), *(row(results, run, READOUTS[name].__name__, "seconds") for name, run in readouts.items())]
    rows += [(), *(row(results, run, name, "seconds") for name, run in policies.items())]
    model, dtype = effects.config["model"], effects.config["dtype"].removeprefix("torch.")
    positions = max(run.config["tokens"] for run in results.runs.values())
    notes = (
        "n = 1, one thread, the model's weights included.",
        processes(readouts),
        f"{listed(list(READ_AS))} are {listed([READOUTS[name].__name__ for name in READ_AS.values()])}.",
        "kvzip reads a chunk of the context again after the context, and both have to fit the model's "
        f"{positions:,} positions.",
        "Seconds: of the effects wall clock, of the others CPU.",
    )
    return Table(
        name="memory",
        caption=f"Peak resident memory on {model} ({dtype}), random tokens.",
        columns=("What", "Tokens", "Peak, GB", "Seconds"),
        rows=tuple(rows),
        notes=(" ".join(notes),),
    )


def runs_of(results: Results, kind: str, order: list[str]) -> dict[str, RunResult]:
    """The runs of a kind by name: first those measured together, as they followed each other."""
    found = {str(run.at[kind]): run for run in results.runs.values() if run.at["kind"] == kind}
    places = {name: run.config.get("place", len(found) + order.index(name)) for name, run in found.items()}
    return {name: found[name] for name in sorted(found, key=lambda name: places[name])}


def row(results: Results, run: RunResult, name: str, spent: str) -> tuple[str, ...]:
    peak, seconds = (results.value(what, **run.at) for what in ("peak_bytes", spent))
    return name, f"{run.config['tokens']:,}", f"{peak / 1e9:.2f}", shown_seconds(seconds)


def processes(readouts: dict[str, RunResult]) -> str:
    """Which peaks may be those of what ran before: the first readouts were measured together."""
    alone = [READOUTS[name].__name__ for name, run in readouts.items() if "split_from" not in run.config]
    if len(alone) == len(readouts):
        return "Each in a process of its own."
    together = (
        "Readouts run one after another in one process and a peak never falls, so each also bounds those before it; "
        "policies start anew."
    )
    return f"{together} {listed(alone)}: in a process of its own." if alone else together


def listed(names: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


EXPERIMENT = Experiment(
    name=NAME,
    place=62,
    jobs=jobs,
    reports=(
        Report("Peak memory of all effects, of every readout and of every policy", "cost", memory_table, beyond=True),
    ),
    bench=True,
)
