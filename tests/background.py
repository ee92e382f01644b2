"""Processes of tests: forks, which have imported everything already."""

import io
import json
import multiprocessing
from collections.abc import Callable
from contextlib import redirect_stdout
from importlib import import_module
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

FORK = multiprocessing.get_context("fork")


def in_background(job: Callable[..., object], *arguments: object, **options: object) -> BaseProcess:
    """The job in a process of its own, to be killed."""
    process = FORK.Process(target=job, args=arguments, kwargs=options)
    process.start()
    return process


def in_own_fork(what: str, module: str, function: str, *arguments: str | int) -> Any:
    """As ``keepset.paper.bench.peak.in_own_process``, whose process is a fresh one."""
    ours, theirs = FORK.Pipe(duplex=False)
    process = in_background(_say, theirs, getattr(import_module(module), function), *arguments)
    theirs.close()
    said = ours.recv()
    process.join()
    return json.loads(said.splitlines()[-1])


def _say(to: Connection, job: Callable[..., object], *arguments: object) -> None:
    with redirect_stdout(io.StringIO()) as said:
        job(*arguments)
    to.send(said.getvalue())
