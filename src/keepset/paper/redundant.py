"""Two disjoint chains to one answer: no block suffices, none is necessary (``tab:redundant``), and our families.

Three searches for every minimal sufficient set stand beside the paper's labels. ``masked`` hides by the paper's mask;
``nonce`` overwrites by nonce records, so that the end of a chain competes with other values and chains; ``confirmed``
keeps of those sets the ones that hold among other nonces. All ask for even odds on the answer, not for the most likely
token: see ``Confident``.
"""

import time
from functools import partial

from keepset import seeds
from keepset.blocks import KeepSet
from keepset.interventions import Confident, Fast, Mask, Overwrite, Probe
from keepset.labels import FoundFamily, confirm, covered, covers, find_families, floored, greedy_sets, keep_sets, top_k
from keepset.paper.experiment import Jobs, run_result
from keepset.paper.labelled import RUN, Labelled
from keepset.paper.result import Metric, RunResult
from keepset.paper.statistics import proportion
from keepset.paper.teachers import teacher_seeds
from keepset.paper.testbed.tasks.nonce import nonce_blocks
from keepset.paper.testbed.teachers.config import TeacherConfig

EXPERIMENT = "redundant"
MIXTURES = ("five-task", "hardened")
CONDITION = "multihop_redundant"
EXAMPLES = {"smoke": 6, "small": 300, "paper": 300}
SEARCHED = {"smoke": 3, "small": 60, "paper": 100}
"""Examples on which the searches run; the paper's greedy search runs on 100."""
BUDGET = 3
ALTERNATIVES = 3
"""Nonces of each block, for the search."""
CONFIRMING = 6
"""Other nonces of each block, to confirm what was found."""


def jobs(scale: str) -> Jobs:
    """One result per teacher that learned chains."""
    return {
        f"redundant/{mixture}-{seed}": partial(search, scale, mixture, seed)
        for mixture in MIXTURES
        for seed in teacher_seeds(scale, mixture)
    }


def search(scale: str, mixture: str, seed: int) -> RunResult:
    """The paper's labels and our families on one teacher."""
    started = time.monotonic()
    subject = Labelled.load(scale, mixture, seed, CONDITION, EXAMPLES[scale])
    few = Labelled(subject.model, subject.config, CONDITION, SEARCHED[scale])
    masked, nonce, other = (
        Probe(few.batch, Fast(few.model, operator), Confident())
        for operator in (Mask(), nonces(subject.config, 0, ALTERNATIVES), nonces(subject.config, 1, CONFIRMING))
    )
    searched = {"masked": find_families(masked), "nonce": find_families(nonce)}
    searched["confirmed"] = confirm(searched["nonce"], other)
    tokens = {"masked": [masked], "nonce": [nonce], "confirmed": [nonce, other]}
    metrics = [*papers_labels(subject), *greedy(few)]
    for name, found in searched.items():
        metrics += against_chains(name, few, found)
        cost = sum(probe.executor.cost.tokens for probe in tokens[name])
        metrics.append(Metric(name=f"{name}_tokens", value=cost / few.n, n=few.n))
    return run_result(
        EXPERIMENT,
        scale,
        started,
        config={
            "mixture": mixture,
            "seed": seed,
            "budget": BUDGET,
            "alternatives": ALTERNATIVES,
            "confirming": CONFIRMING,
        },
        seeds={"intervention": seeds.INTERVENTION.seed(RUN)},
        counts={"examples": subject.n, "searched": few.n},
        metrics=metrics,
    )


def papers_labels(subject: Labelled) -> list[Metric]:
    """Dense accuracy, whether a chain alone suffices, cover by the floored estimator and by attention, singletons."""
    effects = subject.effects
    families = [example.family or frozenset() for example in effects.probe.examples]
    sufficient, chains = effects.sufficient, subject.known
    either = [min(family, key=sorted) for family in families]
    routed = effects.probe.score(list(enumerate(either)))
    n = subject.n
    return [
        proportion("dense", int(effects.clean_correct.sum()), n),
        proportion("one_chain_suffices", sum(score.correct for score in routed), n),
        proportion("floored_cover", sum(covered(keep_sets(floored(effects, BUDGET)), families)), n),
        proportion("attention_cover", sum(covered(keep_sets(top_k(subject.attention, BUDGET)), families)), n),
        Metric(name="singletons_in_chain", value=float((sufficient & chains).sum()) / n, n=n),
        Metric(name="singletons_off_chain", value=float((sufficient & ~chains).sum()) / n, n=n),
        proportion("nothing_over_floor", int((effects.drop < 0.25).all(1).sum()), n),
    ]


def greedy(subject: Labelled) -> list[Metric]:
    families = [example.family or frozenset() for example in subject.effects.probe.examples]
    return [proportion("greedy_cover", sum(covered(keep_sets(greedy_sets(subject.effects)), families)), subject.n)]


def nonces(config: TeacherConfig, draw: int, alternatives: int) -> Overwrite:
    return Overwrite(nonce_blocks(config.vocabulary, seeds.INTERVENTION.seed(RUN, draw), alternatives))


def against_chains(name: str, subject: Labelled, found: list[FoundFamily]) -> list[Metric]:
    """What a search found against the two chains, on the examples the teacher answers."""
    answered = subject.effects.clean_correct.nonzero().flatten().tolist()
    chains = {i: subject.effects.probe.examples[i].family or frozenset() for i in answered}
    labels: dict[int, KeepSet] = {i: found[i].union for i in answered}
    everything: dict[int, KeepSet] = {i: frozenset().union(*found[i].sets) for i in answered}
    n = max(1, len(answered))
    return [
        proportion(f"{name}_cover", sum(covers(labels[i], chains[i]) for i in answered), n),
        proportion(f"{name}_family_cover", sum(covers(everything[i], chains[i]) for i in answered), n),
        proportion(f"{name}_chain_found", sum(bool(found[i].sets & chains[i]) for i in answered), n),
        proportion(f"{name}_both_chains_found", sum(found[i].sets >= chains[i] for i in answered), n),
        proportion(f"{name}_exact_family", sum(found[i].smallest == chains[i] for i in answered), n),
        proportion(f"{name}_exact_union", sum(labels[i] == frozenset().union(*chains[i]) for i in answered), n),
        proportion(f"{name}_complete", sum(found[i].complete for i in answered), n),
        Metric(name=f"{name}_label_size", value=sum(map(len, labels.values())) / n, n=n),
        Metric(name=f"{name}_family_size", value=sum(map(len, everything.values())) / n, n=n),
        Metric(name=f"{name}_sets", value=sum(len(found[i].sets) for i in answered) / n, n=n),
        Metric(name=f"{name}_probes", value=sum(found[i].probes for i in answered) / n, n=n),
    ]
