"""Workers come and go; every task is done, and its result is given once."""

import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from keepset.jobs import engines, label, open_pool
from keepset.jobs.engines import check_engine
from keepset.jobs.labelling import Loaded, own_device
from keepset.jobs.pool import MOST_LOSSES, Crew, Event, Here, Pool, WorkerLost
from keepset.jobs.processes import Processes
from tests.background import ForkedProcesses, in_background
from tests.jobs.conftest import Write, row
from tests.jobs.pool_work import Squares
from tests.jobs.test_resume import contents

pytestmark = pytest.mark.long

WITH_RAY = pytest.param("ray", marks=pytest.mark.skipif(find_spec("ray") is None, reason="needs the package ray"))
ENGINES = ["local", WITH_RAY]


def squared(start: Squares, tasks: list[int], engine: str = "local", workers: int = 2) -> list[tuple[int, int]]:
    # Not by open_pool on this machine, whose workers import torch to divide its threads: these only square numbers.
    with Pool[int, int](Processes(start), workers) if engine == "local" else open_pool(start, engine, workers) as pool:
        return sorted(pool.run(tasks))


@pytest.mark.parametrize("engine", ENGINES)
def test_every_task_is_done_once_though_workers_are_killed(tmp_path: Path, engine: str) -> None:
    tasks = list(range(25))
    assert squared(Squares(tmp_path), tasks, engine) == [(i, i * i) for i in tasks]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["killed-13", "killed-23", "killed-3"]


@pytest.mark.parametrize("engine", ENGINES)
def test_an_error_in_a_worker_is_an_error_here(tmp_path: Path, engine: str) -> None:
    with pytest.raises(ValueError, match="task: expected at least 0, got -1"):
        squared(Squares(tmp_path), [1, -1, 2], engine)
    (tmp_path / "never").touch()
    with pytest.raises(ValueError, match="model: expected one, got none"):
        squared(Squares(tmp_path), [1], engine)


def test_a_task_that_ends_every_worker_stops_the_job(tmp_path: Path) -> None:
    with pytest.raises(ChildProcessError, match=r"^7: expected a result, but 4 workers were lost over it, .*SIGKILL"):
        squared(Squares(tmp_path, fatal=7), [7, 8])


def test_workers_that_never_start_stop_the_job(tmp_path: Path) -> None:
    (tmp_path / "dies").touch()
    with pytest.raises(ChildProcessError, match="4 in a row ended before they were ready: killed by SIGKILL"):
        squared(Squares(tmp_path), [1])


def test_workers_that_never_start_are_no_reason_to_stop_one_that_works() -> None:
    class OneOfTwo(Crew):
        """The first worker works; the second one is lost before it is ready, as often as it is made."""

        def __init__(self) -> None:
            self.events: deque[Event] = deque()
            self.made = 0

        def launch(self, number: int) -> int:
            self.made += 1
            self.events.append(Event(self.made, "ready", "one") if number == 0 else Event(self.made, "lost", "killed"))
            return self.made

        def send(self, worker: int, task: int) -> None:
            self.events.append(Event(worker, "done", task**2))

        def wait(self) -> Event:
            return self.events.popleft()

        def dismiss(self, worker: int) -> None:
            """There is nothing to end."""

    crew = OneOfTwo()
    with Pool[int, int](crew, 2) as pool:
        assert dict(pool.run(range(10))) == {task: task**2 for task in range(10)}
    assert crew.made > 2 + MOST_LOSSES


def test_workers_must_have_loaded_the_same(tmp_path: Path) -> None:
    def slowly() -> Iterator[int]:
        for _ in range(600):
            time.sleep(0.1)
            yield 1

    with (
        pytest.raises(ValueError, match="workers: expected all to have loaded the same"),
        Pool[int, int](Processes(Squares(tmp_path, differs=True)), 2) as pool,
    ):
        list(pool.run(slowly()))


def test_a_worker_in_this_process_that_is_lost_is_one_line() -> None:
    class Lost:
        identity = "one"

        def __call__(self, task: int) -> int:
            raise WorkerLost("the device is gone: odd")

    with pytest.raises(OSError, match="the device is gone"), Pool[int, int](Here(lambda _: Lost()), 1) as pool:
        list(pool.run([1]))


def test_no_worker_outlives_a_killed_pool(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from keepset.jobs.pool import Pool\n"
        "from keepset.jobs.processes import Processes; from tests.jobs.pool_work import Squares\n"
        "with Pool(Processes(Squares(Path(sys.argv[1]))), 2) as pool:\n"
        "    list(pool.run([1])); print('ready', flush=True); time.sleep(600)\n"
    )
    run = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]
    )
    assert run.stdout is not None
    assert run.stdout.readline() == b"ready\n"
    workers = psutil.Process(run.pid).children(recursive=True)
    assert workers
    run.kill()
    run.wait()
    _, alive = psutil.wait_procs(workers, timeout=60)
    assert not alive


@pytest.mark.parametrize("engine", ENGINES)
def test_labels_are_the_same_whoever_makes_them(sharp: Loaded, write: Write, tmp_path: Path, engine: str) -> None:
    data = write(*(b"{broken" if i % 9 == 4 else row(i, candidates=["42", f"{4000 + i}"]) for i in range(44)))
    label(data, sharp, tmp_path / "one", shard_rows=20)
    done = label(data, sharp, tmp_path / "two", shard_rows=20, workers=2, engine=engine)
    assert (done.rows, done.rejected, done.new) == (39, 5, 44)
    assert contents(tmp_path / "two") == contents(tmp_path / "one")


def test_one_worker_goes_on_where_two_were_killed(
    tiny: Loaded, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "Processes", ForkedProcesses)
    data, out = write(*(row(i) for i in range(60))), tmp_path / "out"
    label(data, tiny, tmp_path / "whole", shard_rows=24)
    run = in_background(label, data, tiny, out, shard_rows=24, workers=2)
    while run.exitcode is None and not list(out.glob(".shard*")):
        time.sleep(0.01)
    run.kill()
    run.join()
    assert label(data, tiny, out, shard_rows=24).new < 60
    assert contents(out) == contents(tmp_path / "whole")


def test_each_worker_has_its_share_of_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    from keepset.jobs.engines import divided_threads

    monkeypatch.setattr(torch, "get_num_threads", lambda: 8)
    assert [divided_threads(n) for n in (2, 3, 16)] == [4, 2, 1]


def test_each_worker_has_its_own_gpu() -> None:
    assert [own_device("cuda", n, 2) for n in range(3)] == ["cuda:0", "cuda:1", "cuda:0"]
    assert (own_device("cuda", 1, 1), own_device("cuda:3", 1, 8), own_device("cpu", 1, 8)) == ("cuda", "cuda:3", "cpu")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("spark", 1, None), "engine: expected one of local, ray, got 'spark'"),
        (("local", 0, None), "workers: expected at least 1, got 0"),
        (("local", 2, "auto"), "address: expected the engine ray with it, got 'local'"),
    ],
)
def test_wrong_engines_are_refused(arguments: tuple[Any, ...], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        check_engine(*arguments)


def test_an_unknown_device_is_refused_before_there_is_a_cluster(tmp_path: Path) -> None:
    pool = open_pool(Squares(tmp_path), "ray", 1, device="toaster")
    with pytest.raises(ValueError, match="device: expected cpu, cuda, cuda:1 or mps, got 'toaster'"), pool:
        pass


@pytest.mark.skipif(find_spec("ray") is not None, reason="there is the package ray")
def test_without_ray_it_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"pip install 'keepset\[ray\]'"):
        squared(Squares(tmp_path), [1], "ray")


def test_a_dismissed_process_is_gone(tmp_path: Path) -> None:
    crew = Processes(Squares(tmp_path))
    worker = crew.launch(0)
    crew.dismiss(worker)
    assert crew.wait()[1:] == ("lost", "killed by SIGKILL")
