"""Workers as actors of a Ray cluster.

Plain actors, not Ray Data: a job here goes on group by group from its own journal, every row once, and a row that fails
is a reject; see docs/scale.md. A lost actor (its process, its node) is made anew by the pool, on whatever node has
room: nodes may come and go.
"""

from collections.abc import Hashable
from typing import Any

from rich.console import Console

from keepset.jobs.pool import Crew, Event, Start
from keepset.terminal import one_line

PATIENCE = 60.0
"""Seconds after which it says what it is waiting for."""


def ray_package() -> Any:
    try:
        import ray
    except ImportError as error:
        raise ValueError("engine: ray is a package of its own: pip install 'keepset[ray]'") from error
    return ray


class Actor:
    """One worker, on some node."""

    def __init__(self, start: Start[Any, Any], number: int) -> None:
        self._start = start
        self._number = number

    def ready(self) -> Any:
        self._worker = self._start(self._number)
        return self._worker.identity

    def work(self, task: Any) -> Any:
        return self._worker(task)


class RayActors(Crew):
    """Each worker an actor with so many CPUs and GPUs of its own."""

    def __init__(self, start: Start[Any, Any], cpus: int, gpus: int) -> None:
        self._ray = ray_package()
        self._asks = {"num_cpus": cpus, "num_gpus": gpus}
        self._start = self._ray.put(start)
        self._pending: dict[Any, tuple[Any, str]] = {}
        """What is waited for -> actor, and what it means when it comes."""

    def launch(self, number: int) -> Hashable:
        actor = self._ray.remote(Actor).options(**self._asks).remote(self._start, number)
        self._pending[actor.ready.remote()] = actor, "ready"
        return actor  # type: ignore[no-any-return]

    def send(self, worker: Any, task: Any) -> None:
        self._pending[worker.work.remote(task)] = worker, "done"

    def wait(self) -> Event:
        come: list[Any] = []
        while not come:
            come, _ = self._ray.wait(list(self._pending), timeout=PATIENCE)
            if not come and all(kind == "ready" for _, kind in self._pending.values()):
                self._say_waiting()
        actor, kind = self._pending.pop(come[0])
        errors = self._ray.exceptions
        try:
            return Event(actor, kind, self._ray.get(come[0]))  # type: ignore[arg-type]
        except errors.RayTaskError as error:
            return Event(actor, "failed", error.cause if isinstance(error.cause, Exception) else error)
        except (errors.RayActorError, errors.ObjectLostError, errors.WorkerCrashedError) as error:
            return Event(actor, "lost", str(error).splitlines()[0])

    def dismiss(self, worker: Any) -> None:
        for waited in [waited for waited, (actor, _) in self._pending.items() if actor == worker]:
            del self._pending[waited]
        self._ray.kill(worker)

    def _say_waiting(self) -> None:
        there = {name: self._ray.cluster_resources().get(name, 0) for name in ("CPU", "GPU")}
        Console(stderr=True).print(
            f"waiting for workers to start: each asks for {self._asks['num_cpus']} CPUs and "
            f"{self._asks['num_gpus']} GPUs, the cluster has {there['CPU']:.0f} and {there['GPU']:.0f} in all",
            highlight=False,
            soft_wrap=True,
        )


class Cluster:
    """The cluster at ``address``, or one of this machine alone while it is needed."""

    def __init__(self, address: str | None) -> None:
        self._ray = ray_package()
        self._own = not self._ray.is_initialized()
        if self._own:
            here = {} if address else {"include_dashboard": False, "_node_ip_address": "127.0.0.1"}
            try:
                self._ray.init(address=address or "local", log_to_driver=False, logging_level="ERROR", **here)
            except Exception as error:  # where a cluster does not come up in time, Ray raises just that
                where = f"a running Ray cluster at {address}" if address else "Ray to start on this machine"
                raise ValueError(f"engine ray: expected {where}, got: {one_line(str(error))}") from error

    def amount(self, resource: str) -> int:
        return int(self._ray.cluster_resources().get(resource, 0))

    def threads(self, workers: int) -> int:
        """CPUs for each of so many workers; no more than every node has, so that each node has room for one."""
        smallest = min(node["Resources"].get("CPU", 0) for node in self._ray.nodes() if node["Alive"])
        return max(1, min(self.amount("CPU") // workers, int(smallest)))

    def close(self) -> None:
        if self._own:
            self._ray.shutdown()
