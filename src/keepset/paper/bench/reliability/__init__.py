"""Does labelling lose nothing, double nothing and notice damage, whatever happens in between?

Processes killed (``kills``), bits flipped and rows fuzzed (``damage``), memory and throughput (``load``). All on a
model of untrained weights: what it says does not matter here, only that it says the same.
"""

import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

from keepset import seeds
from keepset.jobs.stored import stored_rejects
from keepset.paper.bench.models import TINY
from keepset.paper.bench.peak import in_own_process
from keepset.paper.bench.reliability import load
from keepset.paper.bench.reliability.damage import flip_bits, write_fuzzed
from keepset.paper.bench.reliability.folders import SHARD_ROWS, compare, numbered_rows, write_rows
from keepset.paper.bench.reliability.kills import NODES, kill_local, kill_on_ray, run_job
from keepset.paper.claim import FAILS, HOLDS, Claim
from keepset.paper.experiment import Experiment, Jobs, Report, run_result
from keepset.paper.result import Metric, RunResult
from keepset.paper.results import Results
from keepset.paper.table import Table

NAME = "reliability"
SEED = seeds.INTERVENTION.seed(3)
ON_RAY = "kills-ray"
KILLS = {"kills-1": 1, "kills-2": 2, ON_RAY: NODES}
"""Run -> its workers."""
MANY = (1, 2, 8, 64, 512, 1_000)
"""Workers of the simulation."""
MILLION = 1_000_000
BLOCKS = 64
ASSUMED_PARAMETERS, ASSUMED_FLOPS, ASSUMED_START = 8e9, 4e14, 120.0
"""Of a model, of a GPU per second (40 % of what a GPU of 2023 promises in bfloat16), seconds."""
MOST_GROWTH = 1.2
"""Of peak memory, from few rows to many."""

SIZES = {
    "smoke": {
        "rows": 120,
        "kills": 3,
        "fuzzed": 60,
        "few": 40,
        "many": 400,
        "flips": 10,
        "timed": 80,
        "simulated": 800,
    },
    "small": {
        "rows": 500,
        "kills": 20,
        "fuzzed": 5_000,
        "few": 1_000,
        "many": 100_000,
        "flips": 120,
        "timed": 2_000,
        "simulated": 100_000,
    },
}
SIZES["paper"] = SIZES["small"]


def jobs(scale: str) -> Jobs:
    found: Jobs = {f"{NAME}/{run}": partial(run_kills, scale, run) for run in KILLS}
    for run, job in (("flips", run_flips), ("fuzz", run_fuzz), ("memory", run_memory), ("throughput", run_throughput)):
        found[f"{NAME}/{run}"] = partial(job, scale)
    return found


def run_kills(scale: str, run: str) -> RunResult:
    """A job whose processes are killed again and again, beside one that was left alone."""
    started, sizes, workers = time.monotonic(), SIZES[scale], KILLS[run]
    killed, wrong = Counter[str](), Counter[str]()
    jobs = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = write_rows(folder / "data.jsonl", sizes["rows"])
        run_job(data, folder / "whole", 1)
        while killed.total() < sizes["kills"]:  # a job may end before it was killed often enough: then one more
            out, left, seed = folder / f"out-{jobs}", sizes["kills"] - killed.total(), SEED + jobs
            if run == ON_RAY:
                killed.update(kill_on_ray(data, out, left, seed))
            else:
                killed.update(kill_local(data, out, workers, left, seed))
            wrong.update(vars(compare(out, folder / "whole")))
            jobs += 1
    rows = jobs * sizes["rows"]
    metrics = [Metric(what=what, value=value, n=rows) for what, value in wrong.items()]
    metrics += [Metric(what="kills", at={"of": of}, value=n, n=1) for of, n in killed.items()]
    config: dict[str, Any] = {"workers": workers, "engine": "ray" if run == ON_RAY else "local"}
    return _result(scale, started, run, config, {"jobs": jobs, "rows": rows}, metrics)


def run_flips(scale: str) -> RunResult:
    """One flipped bit in a shard at a time."""
    started, sizes = time.monotonic(), SIZES[scale]
    with tempfile.TemporaryDirectory() as name:
        out = Path(name) / "out"
        run_job(write_rows(Path(name) / "data.jsonl", 4 * SHARD_ROWS), out, 1)
        found = flip_bits(out, sizes["flips"], SEED)
    metrics = [Metric(what=what, value=n, n=sizes["flips"]) for what, n in found.items()]
    return _result(scale, started, "flips", {}, {"flips": sizes["flips"]}, metrics)


def run_fuzz(scale: str) -> RunResult:
    """Rows that nobody would write on purpose: each gets labels or a reason, once."""
    started, sizes = time.monotonic(), SIZES[scale]
    n = sizes["fuzzed"]
    with tempfile.TemporaryDirectory() as name:
        out = Path(name) / "out"
        run_job(write_fuzzed(Path(name) / "data.jsonl", n, SEED), out, 1)
        lines = Counter(line for line, _ in numbered_rows(out))
        rejected = sum(1 for _ in stored_rejects(out))
    found = {"lost": n - len(lines), "twice": sum(times - 1 for times in lines.values()), "rejected": rejected}
    metrics = [Metric(what=what, value=value, n=n) for what, value in found.items()]
    return _result(scale, started, "fuzz", {}, {"rows": n}, metrics)


def run_memory(scale: str) -> RunResult:
    """Peak memory with few rows and with many, each in a process of its own."""
    started, sizes = time.monotonic(), SIZES[scale]
    metrics = []
    for rows in (sizes["few"], sizes["many"]):
        found = in_own_process(f"{rows} rows", load.__name__, load.print_peak.__name__, rows)
        metrics += [Metric(what=what, at={"rows": rows}, value=value, n=1) for what, value in found.items()]
    config = {"shard_rows": load.MEMORY_SHARD_ROWS}
    return _result(scale, started, "memory", config, {"rows": sizes["many"]}, metrics)


def run_throughput(scale: str) -> RunResult:
    """Seconds per row with one worker and with two."""
    started, sizes = time.monotonic(), SIZES[scale]
    metrics = [
        Metric(what="row_seconds", at={"workers": n}, value=load.seconds_per_row(sizes["timed"], n), n=sizes["timed"])
        for n in (1, 2)
    ]
    return _result(scale, started, "throughput", {}, {"rows": sizes["timed"]}, metrics)


def _result(
    scale: str, started: float, run: str, config: dict[str, Any], counts: dict[str, int], metrics: list[Metric]
) -> RunResult:
    return run_result(
        NAME,
        scale,
        started,
        at={"run": run},
        command=f"keepset bench {NAME}",
        config={"model": TINY, "shard_rows": SHARD_ROWS, **config},
        seeds={"intervention": SEED},
        counts=counts,
        metrics=metrics,
    )


def there(results: Results, *runs: str) -> bool:
    return set(runs) <= set(results.of(NAME).coordinates("run"))


def kill_runs(results: Results) -> dict[str, RunResult]:
    """Those that are there: Ray is a package of its own."""
    return {name: results.run(run=name) for name in KILLS if there(results, name)}


def workers_of(run: RunResult) -> str:
    workers, engine = run.config["workers"], run.config["engine"]
    return f"{workers} worker{'s' * (workers > 1)}{' on Ray' * (engine == 'ray')}"


def reliability_table(results: Results) -> Table:
    """What was done to a job, and what was wrong afterwards."""
    rows: list[tuple[str, ...]] = []
    for name, run in kill_runs(results).items():
        kills = ", ".join(f"{n:.0f} of a {of}" for of, n in killed_in(results, name).items() if n)
        wrong = (f"{results.value(what, run=name):.0f}" for what in ("lost", "twice", "different"))
        rows.append(
            (f"kills: {kills}", f"{run.counts['rows']:,} rows in {run.counts['jobs']} jobs, {workers_of(run)}", *wrong)
        )
    n, rejected = results.run(run="fuzz").counts["rows"], results.value("rejected", run="fuzz")
    lost, twice = (f"{results.value(what, run='fuzz'):.0f}" for what in ("lost", "twice"))
    rows.append(("fuzzed rows", f"{n:,} rows, {rejected:,.0f} rejected with a reason", lost, twice, "-"))
    flips = {what: results.value(what, run="flips") for what in ("refused", "same", "different")}
    bits = f"{sum(flips.values()):.0f} bits, {flips['refused']:.0f} refused by the name of the shard"
    rows.append(("flipped bits, one at a time", bits, "-", "-", f"{flips['different']:.0f}"))
    return Table(
        name="reliability",
        caption="A labelling job under abuse: rows lost, rows there twice, rows that read back different.",
        columns=("What was done", "To", "Lost", "Twice", "Different"),
        rows=tuple(rows),
        notes=(
            "Untrained model of two layers. A kill is SIGKILL after one to three more groups of eight rows; the writer "
            "is the process that owns the folder. Different: from a job that was left alone, in labels or reasons.",
        ),
    )


def killed_in(results: Results, run: str) -> dict[str, float]:
    """How often what was killed."""
    found = results.select("kills", run=run)
    return dict(zip(found["of"], found["value"], strict=True))


def load_table(results: Results) -> list[Table]:
    """Memory, and how throughput grows with workers: measured, then simulated."""
    if not there(results, "memory", "throughput"):
        return []
    peaks = {rows: results.value("peak_bytes", run="memory", rows=rows) for rows in memory_rows(results)}
    rows: list[tuple[str, ...]] = [
        (f"peak memory, {n:,} rows", f"{peak / 1e9:.3f} GB", f"{growth(results, n):.2f}") for n, peak in peaks.items()
    ]
    one, two = (results.value("row_seconds", run="throughput", workers=n) for n in (1, 2))
    rows += [(), ("1 worker, measured", f"{1 / one:.0f} rows/s", "1.00")]
    rows += [("2 workers, measured", f"{1 / two:.0f} rows/s", f"{one / two:.2f}"), ()]
    writer = writer_seconds(results)
    for workers in MANY:
        ratio = speedup(results, workers)
        rows.append((f"{workers:,} workers, simulated", f"{ratio:,.0f} rows/s", f"{ratio:,.1f}"))
    table = Table(
        name="reliability-load",
        caption="Memory and throughput of a labelling job; ratios are to the first line of each part.",
        columns=("What", "Measured", "Ratio"),
        rows=tuple(rows),
        notes=(
            "Memory: of the writing process, with remembered labels, so that only its own work is measured; it takes "
            f"{1e3 * writer:.2f} ms of CPU time per row.",
            "Workers: wall clock of one thread each, without their start; where the machine is busy with other work, "
            "the ratio is lower than its cores allow.",
            "Simulated: workers that take 1 second per row, and the writing process with the time above, through the "
            "pool that runs real ones.",
        ),
    )
    return [table]


def memory_rows(results: Results) -> list[int]:
    return results.coordinates("rows", "peak_bytes")


def growth(results: Results, rows: int) -> float:
    few = memory_rows(results)[0]
    return results.value("peak_bytes", run="memory", rows=rows) / results.value("peak_bytes", run="memory", rows=few)


def writer_seconds(results: Results) -> float:
    """CPU time of the process that writes, per row."""
    rows = memory_rows(results)[-1]
    return results.value("seconds", run="memory", rows=rows) / rows


def speedup(results: Results, workers: int, row_seconds: float = 1.0) -> float:
    """Rows in the time that one worker takes for one, in simulation."""
    rows = SIZES[results.run(run="memory").scale]["simulated"]
    return rows * row_seconds / load.simulated_seconds(workers, rows, row_seconds, writer_seconds(results))


def million_table(results: Results) -> list[Table]:
    """On paper: a million documents by more and more GPUs."""
    if not there(results, "memory"):
        return []
    tokens = results.value("tokens", subject="records", n_blocks=BLOCKS, side="evidence", quantile="median")
    row_seconds = tokens * 2 * ASSUMED_PARAMETERS / ASSUMED_FLOPS
    rows = SIZES[results.run(run="memory").scale]["simulated"]
    found: list[tuple[str, ...]] = []
    for gpus, folders in ((1, 1), (8, 1), (125, 1), (1_000, 1), (1_000, 8)):
        share = load.simulated_seconds(gpus // folders, rows, row_seconds, writer_seconds(results))
        working = share / rows * MILLION / folders
        busy = MILLION * row_seconds / gpus / working
        total = (ASSUMED_START + working) / 60
        found.append((f"{gpus:,}", f"{folders}", f"{MILLION / working:,.0f}", f"{100 * busy:.0f} %", f"{total:,.0f}"))
    context = results.run(subject="records", n_blocks=BLOCKS).config["context_tokens"]
    table = Table(
        name="reliability-million",
        caption="On paper, not run: labelling a million documents.",
        columns=("GPUs", "Folders", "Rows per second", "GPUs busy", "Minutes"),
        rows=tuple(found),
        notes=(
            f"Measured: {tokens:,.0f} tokens through the model for the evidence of a document of {BLOCKS} blocks and "
            f"{context:,} tokens (engine), {1e3 * writer_seconds(results):.2f} ms of the writing process per row.",
            f"Assumed: a model of {ASSUMED_PARAMETERS / 1e9:.0f} billion parameters, 2 operations per parameter and "
            f"token, {ASSUMED_FLOPS / 1e12:.0f} Tflop/s sustained by each GPU, {ASSUMED_START:.0f} s until workers "
            "have loaded it, no time for the network.",
        ),
    )
    return [table]


def reliability_claims(results: Results) -> list[Claim]:
    """What labelling promises."""
    claims = []
    for name, run in kill_runs(results).items():
        wrong = {what: results.value(what, run=name) for what in ("lost", "twice", "different", "files")}
        here = f"{sum(killed_in(results, name).values()):.0f} kills: "
        here += ", ".join(f"{n:.0f} {'other files' if what == 'files' else what}" for what, n in wrong.items())
        claim = f"Killed again and again, {workers_of(run)}: the same labels, none lost, none twice"
        claims.append(Claim(claim, "-", here, f"{run.counts['rows']}", FAILS if any(wrong.values()) else HOLDS))
    if there(results, "memory"):
        few, many = memory_rows(results)
        ratio = growth(results, many)
        claim = f"Peak memory grows at most {MOST_GROWTH}-fold from {few:,} to {many:,} rows"
        claims.append(Claim(claim, "-", f"{ratio:.2f}", "1", HOLDS if ratio <= MOST_GROWTH else FAILS))
    different = results.metric("different", run="flips")
    claim = "No flipped bit of a shard reads back different"
    claims.append(Claim(claim, "-", f"{different.value:.0f}", f"{different.n}", FAILS if different.value else HOLDS))
    return claims


EXPERIMENT = Experiment(
    name=NAME,
    place=69,
    jobs=jobs,
    reports=(
        Report("Labelling under abuse", "cost", reliability_table, beyond=True),
        Report("Memory and throughput of labelling", "cost", load_table, beyond=True),
        Report("A million documents, on paper", "cost", million_table, needs=("engine",), beyond=True),
    ),
    claims=reliability_claims,
    bench=True,
)
