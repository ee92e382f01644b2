"""Processes of tests: forks, which have imported everything already."""

import io
import json
import multiprocessing
import os
import sys
import threading
from collections.abc import Callable
from contextlib import redirect_stdout
from importlib import import_module
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from keepset.jobs import processes

FORK = multiprocessing.get_context("fork")


def in_background(job: Callable[..., object], *arguments: object, **options: object) -> BaseProcess:
    """The job in a process of its own, to be killed."""
    process = FORK.Process(target=job, args=arguments, kwargs=options)
    process.start()
    return process


def said_by_fork(job: Callable[..., object], *arguments: object) -> str:
    """What the job prints in a process of its own."""
    ours, theirs = FORK.Pipe(duplex=False)
    process = in_background(_say, theirs, job, *arguments)
    theirs.close()
    said: str = ours.recv()
    process.join()
    return said


def _say(to: Connection, job: Callable[..., object], *arguments: object) -> None:
    with redirect_stdout(io.StringIO()) as said:
        job(*arguments)
    to.send(said.getvalue())


def run_with(source: Path, code: str) -> None:
    """Runs code with the package that stands in ``source``: in a fork, where the one of the tests can be forgotten."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "keepset"]:
        del sys.modules[name]
    sys.path.insert(0, str(source))
    exec(code, {})


def in_own_fork(what: str, module: str, function: str, *arguments: str | int) -> Any:
    """As ``keepset.paper.bench.peak.in_own_process``, whose process is a fresh one."""
    return json.loads(said_by_fork(getattr(import_module(module), function), *arguments).splitlines()[-1])


class ForkedProcesses(processes.Processes):
    """Local workers with the same pipes and the same loop behind them, but no interpreter that first imports torch."""

    def launch(self, number: int) -> "ForkedWorker":
        worker = ForkedWorker()
        threading.Thread(target=self._attend, args=(worker, number), daemon=True).start()
        return worker


class ForkedWorker:
    """What a pool wants of ``subprocess.Popen``."""

    def __init__(self) -> None:
        tasks, given = os.pipe()
        heard, said = os.pipe()
        self._process = in_background(_work, tasks, said, (given, heard))
        os.close(tasks)
        os.close(said)
        self.stdin, self.stdout = os.fdopen(given, "wb"), os.fdopen(heard, "rb")
        self._ending = threading.Lock()

    def kill(self) -> None:
        self._process.kill()

    def wait(self) -> int | None:
        with self._ending:  # two threads wait, and the system tells only one of them how it ended
            self._process.join()
        return self._process.exitcode


def _work(tasks: int, said: int, of_pool: tuple[int, int]) -> None:
    for end in of_pool:
        os.close(end)  # held here too, its tasks would not end with the pool
    os.dup2(tasks, 0)
    os.dup2(said, 1)
    sys.stdin, sys.stdout = os.fdopen(0), os.fdopen(1, "w")
    processes.main()
