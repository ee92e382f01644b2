"""Where workers run: ``open_pool`` picks the crew, and divides the machine among the workers."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from keepset.jobs.pool import Crew, Here, Pool, Start, Worker
from keepset.jobs.processes import Processes
from keepset.jobs.ray_actors import Cluster, RayActors
from keepset.models.device import named_device

ENGINES = ("local", "ray")


@dataclass(frozen=True)
class WithThreads:
    """Begins a worker that has only some of the threads of its machine."""

    start: Start[Any, Any]
    threads: int

    def __call__(self, number: int) -> Worker[Any, Any]:
        torch.set_num_threads(self.threads)
        return self.start(number)


def check_engine(engine: str, workers: int | None, address: str | None) -> None:
    if engine not in ENGINES:
        raise ValueError(f"engine: expected one of {', '.join(ENGINES)}, got {engine!r}")
    if workers is not None and (not isinstance(workers, int) or workers < 1):
        raise ValueError(f"workers: expected at least 1, got {workers!r}")
    if address is not None and engine != "ray":
        raise ValueError(f"address: expected the engine ray with it, got {engine!r}")


@contextmanager
def open_pool(
    start: Start[Any, Any], engine: str, workers: int | None, address: str | None = None, device: str = "cpu"
) -> Iterator[Pool[Any, Any]]:
    """Workers that have loaded what they need: one here, several processes, or actors of a cluster.

    Without ``workers``: one here; on a cluster, one for each GPU (with a CUDA device) or CPU.
    """
    if engine == "ray":
        gpus = int(named_device(device).type == "cuda")
        cluster = Cluster(address)
        try:
            count = workers or max(1, cluster.amount("GPU" if gpus else "CPU"))
            threads = cluster.threads(count)
            with Pool[Any, Any](RayActors(WithThreads(start, threads), threads, gpus), count) as pool:
                yield pool
        finally:
            cluster.close()
        return
    count = workers or 1
    crew: Crew = Here(start) if count == 1 else Processes(WithThreads(start, divided_threads(count)))
    with Pool[Any, Any](crew, count) as pool:
        yield pool


def divided_threads(workers: int) -> int:
    return max(1, torch.get_num_threads() // workers)
