"""Processes of a job are killed (``kill -9``) again and again, each time as soon as it has done a little more.

With local workers any process may be hit: the one that writes, after which the same call is made again, or a worker. On
Ray, workers are hit, and once a whole node, after which another node joins.
"""

import multiprocessing
import os
import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import psutil

from keepset.jobs import label
from keepset.jobs.plan import GROUP
from keepset.paper.bench.models import tiny_model
from keepset.paper.bench.reliability.folders import SHARD_ROWS
from keepset.paper.bench.timing import one_thread

POLL = 0.002
"""Seconds between two looks at the folder."""
MOST_GROUPS = 3
"""A process is killed after at most so many groups more."""
NODES = 3


def progress(out: Path) -> int:
    """Groups that are done. A table counts whole, and its journal no more, whichever of the two a kill leaves."""
    tables = {path.stem for path in (out / "data").glob("*.parquet")}
    groups = len(tables) * -(-SHARD_ROWS // GROUP)
    for path in out.glob(".shard-*.journal"):
        with suppress(FileNotFoundError):  # a shard was finished meanwhile
            groups += 0 if path.stem.removeprefix(".") in tables else path.read_bytes().count(b"\n")
    return groups


def wait_for_more(out: Path, more: int, over: Callable[[], bool]) -> bool:
    """Waits until ``more`` groups are done; False when the job is over before."""
    goal = progress(out) + more
    while progress(out) < goal:
        if over():
            return False
        time.sleep(POLL)
    return not over()


def kill_local(data: Path, out: Path, workers: int, kills: int, seed: int) -> dict[str, int]:
    """Runs the job to its end; how often the writing process, and how often a worker was killed."""
    rng = random.Random(seed)
    writers = helpers = 0
    job = begin(data, out, workers)
    while job.exitcode != 0:
        if job.exitcode is not None:
            job = begin(data, out, workers)
        if writers + helpers == kills:
            job.join()
        if not wait_for_more(out, rng.randint(1, MOST_GROUPS), partial(ended, job)):
            if job.exitcode:
                raise RuntimeError(f"the job that is to be killed failed by itself, with exit code {job.exitcode}")
            continue
        children = psutil.Process(job.pid).children() if workers > 1 else []
        target = rng.choice([None, *children])
        if target is None:
            job.kill()
            job.join()
            writers += 1
        else:
            target.kill()
            helpers += 1
    return {"writer": writers, "worker": helpers}


def ended(job: BaseProcess) -> bool:
    return job.exitcode is not None


def begin(data: Path, out: Path, workers: int) -> BaseProcess:
    """The job in a process of its own; a fork, so that twenty of them do not import everything twenty times."""
    job = multiprocessing.get_context("fork").Process(target=run_job, args=(data, out, workers))
    job.start()
    return job


def run_job(data: Path, out: Path, workers: int, **options: Any) -> None:
    with one_thread():
        label(data, tiny_model(), out, shard_rows=SHARD_ROWS, workers=workers, **options)


def kill_on_ray(data: Path, out: Path, kills: int, seed: int) -> dict[str, int]:
    """Runs the job to its end on a cluster of nodes; how often a worker and a node were killed."""
    from ray.cluster_utils import Cluster

    rng = random.Random(seed)
    killed = {"worker": 0, "node": 0}
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    nodes = [cluster.add_node(num_cpus=1) for _ in range(NODES - 1)]
    with ThreadPoolExecutor(1) as thread:  # nodes can be killed and added by the main thread alone
        job = thread.submit(run_job, data, out, NODES, engine="ray", address=cluster.address)
        while sum(killed.values()) < kills and wait_for_more(out, rng.randint(1, MOST_GROUPS), job.done):
            if sum(killed.values()) == kills // 2:
                cluster.remove_node(nodes.pop(), allow_graceful=False)
                cluster.add_node(num_cpus=1)
                killed["node"] += 1
                continue
            actors = [found for found in psutil.process_iter(["cmdline"]) if is_actor(found)]
            if actors:
                with suppress(psutil.NoSuchProcess):
                    rng.choice(actors).kill()
                    killed["worker"] += 1
        job.result()
    cluster.shutdown()
    return killed


def is_actor(process: psutil.Process) -> bool:
    """A worker that this process started, however far down."""
    command = process.info["cmdline"] or [""]
    if not command[0].startswith("ray::Actor"):
        return False
    with suppress(psutil.NoSuchProcess):
        return any(parent.pid == os.getpid() for parent in process.parents())
    return False
