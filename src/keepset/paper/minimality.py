"""How small are behaviourally sufficient sets on chains? (appendix D)"""

import time
from functools import partial

from keepset import seeds
from keepset.labels import greedy_sets, keep_sets
from keepset.paper.experiment import Jobs, run_result
from keepset.paper.labelled import RUN, Labelled
from keepset.paper.result import Metric, RunResult
from keepset.paper.statistics import proportion
from keepset.paper.teachers import teacher_seeds

EXPERIMENT = "minimality"
MIXTURE = "five-task"
CONDITION = "multihop"
EXAMPLES = {"smoke": 10, "small": 300, "paper": 300}
ELEMENTS = ("value", "second_pointer", "first_pointer")
"""Of a chain in position order: a target stands before the record that points to it."""


def jobs(scale: str) -> Jobs:
    """One result per teacher."""
    return {f"minimality/{MIXTURE}-{seed}": partial(search, scale, seed) for seed in teacher_seeds(scale, MIXTURE)}


def search(scale: str, seed: int) -> RunResult:
    """Greedy sets of one teacher's solved chains, and which chain blocks are necessary."""
    started = time.monotonic()
    subject = Labelled.load(scale, MIXTURE, seed, CONDITION, EXAMPLES[scale])
    solved = subject.effects.clean_correct.nonzero().flatten().tolist()
    found = keep_sets(greedy_sets(subject.effects))
    chains = [example.evidence for example in subject.effects.probe.examples]
    n = max(1, len(solved))
    metrics = [
        proportion("solved", len(solved), subject.n),
        Metric(name="greedy_size", value=sum(len(found[i]) for i in solved) / n, n=n),
        proportion("strict_subset_of_chain", sum(found[i] < chains[i] for i in solved), n),
        proportion("holds_chain", sum(found[i] >= chains[i] for i in solved), n),
    ]
    for place, element in enumerate(ELEMENTS):
        flips = sum(bool(subject.effects.flip[i, sorted(chains[i])[place]]) for i in solved)
        metrics.append(proportion(f"hiding_{element}_flips", flips, n))
    return run_result(
        EXPERIMENT,
        scale,
        started,
        config={"mixture": MIXTURE, "seed": seed, "condition": CONDITION},
        seeds={"intervention": seeds.INTERVENTION.seed(RUN)},
        counts={"examples": subject.n},
        metrics=metrics,
    )
