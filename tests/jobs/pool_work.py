"""Work for the tests of pools: importable by workers, which are other processes."""

import os
import signal
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Squares:
    """Squares numbers; ``marks`` is a folder in which workers leave word of what has happened to them."""

    marks: Path
    differs: bool = False
    """Worker 1 says that it is another one."""
    fatal: int | None = None
    """Task that ends every worker."""

    def __call__(self, number: int) -> "Squarer":
        if (self.marks / "never").exists():
            raise ValueError("model: expected one, got none")
        if (self.marks / "dies").exists():
            os.kill(os.getpid(), signal.SIGKILL)
        return Squarer(self, "another" if self.differs and number == 1 else "same")


class Squarer:
    def __init__(self, start: Squares, identity: str) -> None:
        self.start = start
        self.identity = identity

    def __call__(self, task: int) -> int:
        mark = self.start.marks / f"killed-{task}"
        if task == self.start.fatal or (task % 10 == 3 and not mark.exists()):
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if task < 0:
            raise ValueError(f"task: expected at least 0, got {task}")
        return task * task
