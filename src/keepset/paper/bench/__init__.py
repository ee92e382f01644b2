"""What things cost: labelling, routers, pruning, memory. Timings depend on the machine; compare within one run.

Each is an experiment of its own, run by ``keepset bench NAME``. Shared: ``models`` (what is measured on), ``timing``
(clocks, rotation, quartiles), ``peak`` (peak memory of a process).
"""

from pathlib import Path

from keepset.paper.catalogue import experiments
from keepset.paper.experiment import Experiment, Jobs


def find_bench(name: str) -> Experiment:
    """The benchmark called ``name``."""
    benches = {experiment.name: experiment for experiment in experiments().values() if experiment.bench}
    if name not in benches:
        raise ValueError(f"benchmark: expected one of {', '.join(benches)}, got {name!r}")
    return benches[name]


def find_jobs(name: str, scale: str, data: Path | None) -> Jobs:
    """The runs of the benchmark called ``name``, on the data in a folder where it reads any."""
    bench = find_bench(name)
    if data is None:
        return bench.jobs(scale)
    if bench.jobs_on is None:
        raise ValueError(f"data: expected none for the benchmark {name!r}, which reads none, got {data}")
    return bench.jobs_on(scale, data)
