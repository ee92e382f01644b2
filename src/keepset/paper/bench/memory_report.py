"""Peak memory: of all effects of a context, of every readout, of every policy that reads the whole model."""

from keepset.paper.bench.engine_report import seconds
from keepset.paper.result import RunResult
from keepset.paper.table import Table

GIGABYTE = 1e9
PEAK = "_peak_bytes"


def memory_table(effects: list[RunResult], readouts: list[RunResult], policies: list[RunResult]) -> Table:
    """One row for each thing that was run."""
    rows: list[tuple[str, ...]] = [
        (
            f"all effects of {result.config['blocks']} blocks",
            f"{result.config['tokens']:,}",
            gigabytes(result, "peak_bytes"),
            seconds(result.seconds),
        )
        for result in effects
    ]
    for result in [*readouts, *policies]:
        rows.append(())
        for name in parts(result):
            tokens = result.config.get(f"{name}_tokens", result.config.get("tokens"))
            spent = seconds(result.metric(f"{name}_seconds").value)
            rows.append((name, f"{tokens:,}", gigabytes(result, name + PEAK), spent))
    first = effects[0].config
    return Table(
        name="memory",
        caption=f"Peak resident memory on {first['model']} ({first['dtype'].removeprefix('torch.')}), random tokens.",
        columns=("What", "Tokens", "Peak, GB", "Seconds"),
        rows=tuple(rows),
        notes=(
            "n = 1, one thread, the model's weights included. Readouts run one after another in one process and a peak "
            "never falls, so each also bounds those before it; policies start anew. h2o, snapkv and restkv are "
            "accumulated_attention, window_attention and output_reconstruction. kvzip reads a chunk of the context "
            "again after the context, and both have to fit the model's 8,192 positions. Seconds: of the effects wall "
            "clock, of the others CPU.",
        ),
    )


def parts(result: RunResult) -> list[str]:
    return [metric.name.removesuffix(PEAK) for metric in result.metrics if metric.name.endswith(PEAK)]


def gigabytes(result: RunResult, name: str) -> str:
    return f"{result.metric(name).value / GIGABYTE:.2f}"
