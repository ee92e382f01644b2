"""What things cost: labelling, routers, pruning, memory. Timings depend on the machine; compare within one run.

Each is an experiment of its own, run by ``keepset bench NAME``. Shared: ``models`` (what is measured on), ``timing``
(clocks, rotation, quartiles), ``peak`` (peak memory of a process).
"""

from keepset.paper.catalogue import experiments
from keepset.paper.experiment import Experiment


def find_bench(name: str) -> Experiment:
    """The benchmark called ``name``."""
    benches = {experiment.name: experiment for experiment in experiments().values() if experiment.bench}
    if name not in benches:
        raise ValueError(f"benchmark: expected one of {', '.join(benches)}, got {name!r}")
    return benches[name]
