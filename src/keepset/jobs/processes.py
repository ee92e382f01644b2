"""Workers as processes of this machine.

Each is a fresh interpreter with two pipes: tasks go in, events come out, both pickled. It ends when its input does, so
none is left when the process that made it is killed.
"""

import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Hashable
from contextlib import suppress
from typing import Any, BinaryIO

from keepset.jobs.pool import Crew, Event, Start


class Processes(Crew):
    """Each worker in a process of its own."""

    def __init__(self, start: Start[Any, Any]) -> None:
        self._begin = pickle.dumps(start)
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()

    def launch(self, number: int) -> Hashable:
        process = subprocess.Popen(
            [sys.executable, "-c", f"from {__name__} import main; main()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        threading.Thread(target=self._attend, args=(process, number), daemon=True).start()
        return process

    def send(self, worker: subprocess.Popen[bytes], task: Any) -> None:
        self._write(worker, task)

    def wait(self) -> Event:
        return self._events.get()

    def dismiss(self, worker: subprocess.Popen[bytes]) -> None:
        worker.kill()
        worker.wait()
        assert worker.stdin is not None
        with suppress(BrokenPipeError):  # what was still to be sent to it
            worker.stdin.close()

    def _write(self, process: subprocess.Popen[bytes], content: Any) -> None:
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # it is lost, which its end will say
            pickle.dump(content, process.stdin)
            process.stdin.flush()

    def _attend(self, process: subprocess.Popen[bytes], number: int) -> None:
        """Lets a worker begin, and hands on what it says until it ends."""
        self._write(process, (number, self._begin))  # may be a whole model: others begin meanwhile
        assert process.stdout is not None
        with process.stdout as said:
            try:
                while True:
                    self._events.put(Event(process, *pickle.load(said)))
            except (EOFError, pickle.UnpicklingError):  # the second when it ended in the middle of an event
                code = process.wait()
        reason = f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        self._events.put(Event(process, "lost", reason))


def main() -> None:
    """A worker: says that it is ready, then does one task after the other."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that made it, which ends this one
    said = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # nothing printed comes between the events
    tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(sys.stdin.buffer, tasks), daemon=True).start()
    try:
        number, begin = tasks.get()
        start: Start[Any, Any] = pickle.loads(begin)
        worker = start(number)
        _say(said, "ready", worker.identity)
        while True:
            _say(said, "done", worker(tasks.get()))
    except Exception as error:
        error.add_note(f"in a worker:\n{traceback.format_exc()}")
        _say(said, "failed", error)
        os._exit(1)  # an orderly end would wait for the thread that reads


def _receive(given: BinaryIO, tasks: "queue.SimpleQueue[Any]") -> None:
    """Ends the process with its input, whatever it is doing: nobody waits for the result."""
    try:
        while True:
            tasks.put(pickle.load(given))
    except (EOFError, pickle.UnpicklingError):
        os._exit(0)


def _say(said: BinaryIO, kind: str, value: Any) -> None:
    pickle.dump((kind, value), said)
    said.flush()
