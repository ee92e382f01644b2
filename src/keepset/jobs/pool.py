"""Workers that do tasks, here, in other processes or on other machines; what the tasks are is no business of theirs.

    with open_pool(start, workers=2) as pool:
        pool.identity                             what the workers say they are: all the same
        for task, result in pool.run(tasks):      in the order in which they are done
            ...

``start`` is called once in each worker (it loads a model) and gives what does one task after the other. Labelling,
compressing and reproducing differ in ``start`` and tasks alone. Only the process that runs the pool touches the disk: a
worker that was given up but still lives on some machine can harm nothing. The task of a worker that is lost goes to
another one, so a task may be done twice, but its result is given once.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from types import TracebackType
from typing import Any, Generic, Literal, NamedTuple, Protocol, Self, TypeVar

MOST_LOSSES = 4
"""Workers that one task may end, and that may end in a row before they are ready while no task is done."""

T = TypeVar("T")
R = TypeVar("R")
T_contra = TypeVar("T_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)


class Worker(Protocol[T_contra, R_co]):
    """Does one task after the other."""

    @property
    def identity(self) -> Any:
        """What must be the same in all workers."""

    def __call__(self, task: T_contra, /) -> R_co: ...


Start = Callable[[int], Worker[T, R]]
"""Number of the worker -> the worker. Can be pickled."""


class WorkerLost(OSError):
    """Raised by a worker that cannot do any more tasks, though another one might do this one."""


class Event(NamedTuple):
    """What has happened to a worker."""

    worker: Hashable
    kind: Literal["ready", "done", "failed", "lost"]
    value: Any = None
    """Identity, result, exception or reason."""


class Crew(ABC):
    """Workers as processes, or as whatever else."""

    @abstractmethod
    def launch(self, number: int) -> Hashable:
        """Begins to make a worker."""

    @abstractmethod
    def send(self, worker: Any, task: Any) -> None:
        """Gives a task to a worker that has none."""

    @abstractmethod
    def wait(self) -> Event:
        """The next thing that happens."""

    @abstractmethod
    def dismiss(self, worker: Any) -> None:
        """A worker is no longer wanted."""


class Pool(Generic[T, R]):
    """Hands out tasks and makes up for the workers that are lost."""

    def __init__(self, crew: Crew, workers: int) -> None:
        self.workers = workers
        self._crew = crew
        self._numbers: dict[Hashable, int] = {}
        self._idle: list[Hashable] = []
        self._busy: dict[Hashable, T] = {}
        self._again: deque[T] = deque()
        self._losses: dict[int, int] = {}
        """By task: how many workers were lost over it."""
        self._early = 0
        """Workers lost in a row before they were ready, while nobody else got anything done."""
        self._identity: Any = None

    def __enter__(self) -> Self:
        try:
            for number in range(self.workers):
                self._launch(number)
            while not self._idle:
                self._happens()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    @property
    def identity(self) -> Any:
        return self._identity

    @property
    def ready(self) -> int:
        """Workers that can do tasks now."""
        return len(self._idle) + len(self._busy)

    def run(self, tasks: Iterable[T]) -> Iterator[tuple[T, R]]:
        """Every task with its result, as they come."""
        left = iter(tasks)
        while True:
            while self._idle:
                task = self._again.popleft() if self._again else next(left, None)
                if task is None:
                    break
                worker = self._idle.pop()
                self._busy[worker] = task
                self._crew.send(worker, task)
            if self._idle and not self._busy:
                return
            done = self._happens()
            if done is not None:
                yield done

    def _happens(self) -> tuple[T, R] | None:
        """Deals with the next event; what was done, if anything was."""
        worker, kind, value = self._crew.wait()
        if worker not in self._numbers:  # given up already
            return None
        if kind == "lost" or (kind == "failed" and isinstance(value, WorkerLost)):
            self._replace(worker, str(value))
        elif kind == "failed":
            raise value
        elif kind == "ready":
            self._welcome(worker, value)
        else:
            task = self._busy.pop(worker)
            self._losses.pop(id(task), None)
            self._early = 0
            self._idle.append(worker)
            return task, value
        return None

    def _launch(self, number: int) -> None:
        self._numbers[self._crew.launch(number)] = number

    def _welcome(self, worker: Hashable, identity: Any) -> None:
        self._early = 0
        if self._identity is None:
            self._identity = identity
        elif self._identity != identity:
            raise ValueError(
                f"workers: expected all to have loaded the same, {self._identity}, got {identity} in one of them; "
                "what goes by that name differs between machines"
            )
        self._idle.append(worker)

    def _replace(self, worker: Hashable, reason: str) -> None:
        number = self._numbers.pop(worker)
        self._crew.dismiss(worker)
        if worker in self._busy:
            task = self._busy.pop(worker)
            self._losses[id(task)] = self._losses.get(id(task), 0) + 1
            if self._losses[id(task)] >= MOST_LOSSES:
                raise ChildProcessError(
                    f"{task}: expected a result, but {MOST_LOSSES} workers were lost over it, the last one {reason}"
                )
            self._again.append(task)
        elif worker in self._idle:
            self._idle.remove(worker)
        else:
            self._early += 1
            if self._early >= MOST_LOSSES:
                raise ChildProcessError(
                    f"workers: expected them to start, but {self._early} in a row ended before they were ready: "
                    f"{reason}; with too little memory, use fewer"
                )
        self._launch(number)

    def _close(self) -> None:
        for worker in self._numbers:
            self._crew.dismiss(worker)
        self._numbers.clear()


class Here(Crew):
    """One worker in this process: what it raises comes from where it was raised."""

    def __init__(self, start: Start[Any, Any]) -> None:
        self._start = start
        self._next: Event | None = None

    def launch(self, number: int) -> Hashable:
        self._worker = self._start(number)
        self._next = Event(number, "ready", self._worker.identity)
        return number

    def send(self, worker: Any, task: Any) -> None:
        self._next = Event(worker, "done", self._worker(task))

    def wait(self) -> Event:
        assert self._next is not None, "a worker in this process is never waited for twice"
        event, self._next = self._next, None
        return event

    def dismiss(self, worker: Any) -> None:
        """There is nothing to end."""


def own_device(device: str, number: int, gpus: int) -> str:
    """Worker ``number``'s own GPU, where there are several and none was chosen."""
    return f"cuda:{number % gpus}" if device == "cuda" and gpus > 1 else device
