"""Two disjoint chains to one answer: no block suffices, none is necessary (``tab:redundant``), and our families.

Three searches for every minimal sufficient set stand beside the paper's labels. ``masked`` hides by the paper's mask;
``nonce`` overwrites by nonce records, so that the end of a chain competes with other values and chains; ``confirmed``
keeps of those sets the ones that hold among other nonces. All ask for even odds on the answer, not for the most likely
token: see ``Confident``.

Three results per teacher: the paper's labels, the masked search, and the nonce search with what it confirms, which
starts from the sets just found.
"""

import time
from functools import partial
from typing import Any

from keepset import seeds
from keepset.blocks import KeepSet
from keepset.interventions import Confident, Fast, Mask, Overwrite, Probe
from keepset.labels import (
    FLOOR,
    FoundFamily,
    confirm,
    covered,
    covers,
    find_families,
    floored,
    greedy_sets,
    keep_sets,
    top_k,
)
from keepset.paper.claim import Claim, every_claim, none_claim
from keepset.paper.experiment import Choice, Experiment, Jobs, Report, run_result
from keepset.paper.labelled import RUN, Labelled
from keepset.paper.result import At, Coordinate, Metric, RunResult
from keepset.paper.results import Results
from keepset.paper.statistics import share
from keepset.paper.table import Table, with_interval, with_paper
from keepset.paper.teachers import FIVE_TASK, every_teacher, teacher_seeds
from keepset.paper.testbed.tasks.nonce import nonce_blocks
from keepset.paper.testbed.teachers.config import TeacherConfig

NAME = "redundant"
FOLLOWING = "hardened-pointers-first"
"""Teachers that follow the chain they are asked for, among others: those that learned from one chain do not
(``following``)."""
MIXTURES = (FIVE_TASK, FOLLOWING)
CONDITION = "multihop_redundant_pointers_first"
EXAMPLES = {"smoke": 6, "small": 300, "paper": 300}
SEARCHED = {"smoke": 3, "small": 300, "paper": 300}
"""Examples on which the searches run, and the greedy one, which the paper runs on 100."""
BUDGET = 3
ALTERNATIVES = 3
"""Nonces of each block, for the search."""
CONFIRMING = 6
"""Other nonces of each block, to confirm what was found."""
SEARCHES = ("masked", "nonce", "confirmed")


def jobs(scale: str) -> Jobs:
    """Three results per teacher that learned chains."""
    made: Jobs = {}
    for mixture in MIXTURES:
        for seed in teacher_seeds(scale, mixture):
            for part, run in (("labels", label), ("masked", search_masked), ("nonce", search_nonce)):
                made[f"{NAME}/{mixture}-{seed}-{part}"] = partial(run, scale, mixture, seed)
    return made


def label(scale: str, mixture: str, seed: int) -> RunResult:
    """The paper's labels on one teacher; the greedy one on the examples of our searches."""
    started = time.monotonic()
    subject = Labelled.load(scale, mixture, seed, CONDITION, EXAMPLES[scale])
    few = Labelled(subject.model, subject.config, CONDITION, SEARCHED[scale])
    metrics = [*papers_labels(subject), greedy(few)]
    counts = {"examples": subject.n, "searched": few.n}
    return redundant_result(scale, mixture, seed, started, {"budget": BUDGET}, counts, metrics)


def search_masked(scale: str, mixture: str, seed: int) -> RunResult:
    """Families under the mask on one teacher."""
    started = time.monotonic()
    subject = Labelled.load(scale, mixture, seed, CONDITION, SEARCHED[scale])
    probe = Probe(subject.batch, Fast(subject.model, Mask()), Confident())
    metrics = against_chains("masked", subject, find_families(probe), [probe])
    return redundant_result(scale, mixture, seed, started, {}, {"searched": subject.n}, metrics)


def search_nonce(scale: str, mixture: str, seed: int) -> RunResult:
    """Families under nonce records on one teacher, and those of their sets that other nonces confirm."""
    started = time.monotonic()
    subject = Labelled.load(scale, mixture, seed, CONDITION, SEARCHED[scale])
    nonce, other = (
        Probe(subject.batch, Fast(subject.model, operator), Confident())
        for operator in (nonces(subject.config, 0, ALTERNATIVES), nonces(subject.config, 1, CONFIRMING))
    )
    found = find_families(nonce)
    metrics = against_chains("nonce", subject, found, [nonce])
    metrics += against_chains("confirmed", subject, confirm(found, other), [nonce, other])
    config = {"alternatives": ALTERNATIVES, "confirming": CONFIRMING}
    return redundant_result(scale, mixture, seed, started, config, {"searched": subject.n}, metrics)


def redundant_result(
    scale: str,
    mixture: str,
    seed: int,
    started: float,
    config: dict[str, Any],
    counts: dict[str, int],
    metrics: list[Metric],
) -> RunResult:
    return run_result(
        NAME,
        scale,
        started,
        at={"mixture": mixture, "teacher": seed, "condition": CONDITION},
        config={"mixture": mixture, "seed": seed, "condition": CONDITION, **config},
        seeds={"intervention": seeds.INTERVENTION.seed(RUN)},
        counts=counts,
        metrics=metrics,
    )


def papers_labels(subject: Labelled) -> list[Metric]:
    """Dense accuracy, whether a chain alone suffices, cover by the floored estimator and by attention, singletons."""
    effects = subject.effects
    families = [example.family or frozenset() for example in effects.probe.examples]
    sufficient, chains = effects.sufficient, subject.known
    either = [min(family, key=sorted) for family in families]
    routed = effects.probe.score(list(enumerate(either)))
    sets = {"floored": floored(effects, BUDGET), "attention": top_k(subject.attention, BUDGET)}
    singletons = {True: sufficient & chains, False: sufficient & ~chains}
    n = subject.n
    return [
        share("dense", int(effects.clean_correct.sum()), n),
        share("one_chain_suffices", sum(score.correct for score in routed), n),
        *(share("cover", sum(covered(keep_sets(found), families)), n, label=name) for name, found in sets.items()),
        *(
            Metric(what="sufficient_singletons", at={"in_chain": inside}, value=float(found.sum()) / n, n=n)
            for inside, found in singletons.items()
        ),
        share("nothing_over_floor", int((effects.drop < FLOOR).all(1).sum()), n),
    ]


def greedy(subject: Labelled) -> Metric:
    families = [example.family or frozenset() for example in subject.effects.probe.examples]
    found = sum(covered(keep_sets(greedy_sets(subject.effects)), families))
    return share("cover", found, subject.n, label="greedy")


def nonces(config: TeacherConfig, draw: int, alternatives: int) -> Overwrite:
    return Overwrite(nonce_blocks(config.vocabulary, seeds.INTERVENTION.seed(RUN, draw), alternatives))


def against_chains(name: str, subject: Labelled, found: list[FoundFamily], probes: list[Probe]) -> list[Metric]:
    """What a search found against the two chains, on the examples the teacher answers, and what it cost.

    The label is the union of the smallest sets, the family the union of all.
    """
    answered = subject.effects.clean_correct.nonzero().flatten().tolist()
    chains = {i: subject.effects.probe.examples[i].family or frozenset() for i in answered}
    labels: dict[int, KeepSet] = {i: found[i].union for i in answered}
    everything: dict[int, KeepSet] = {i: frozenset().union(*found[i].sets) for i in answered}
    n = max(1, len(answered))
    counted = {
        "cover": sum(covers(labels[i], chains[i]) for i in answered),
        "family_cover": sum(covers(everything[i], chains[i]) for i in answered),
        "chain_found": sum(bool(found[i].sets & chains[i]) for i in answered),
        "both_chains_found": sum(found[i].sets >= chains[i] for i in answered),
        "exact_family": sum(found[i].smallest == chains[i] for i in answered),
        "exact_union": sum(labels[i] == frozenset().union(*chains[i]) for i in answered),
        "complete": sum(found[i].complete for i in answered),
    }
    summed = {
        "label_size": sum(map(len, labels.values())),
        "family_size": sum(map(len, everything.values())),
        "sets": sum(len(found[i].sets) for i in answered),
        "probes": sum(found[i].probes for i in answered),
    }
    tokens = sum(probe.executor.cost.tokens for probe in probes)
    return [
        *(share(what, count, n, label=name) for what, count in counted.items()),
        *(Metric(what=what, at={"label": name}, value=amount / n, n=n) for what, amount in summed.items()),
        Metric(what="tokens", at={"label": name}, value=tokens / subject.n, n=subject.n),
    ]


def teachers(results: Results) -> list[At]:
    """The coordinates of every teacher."""
    every = {(MIXTURES.index(str(run.at["mixture"])), int(run.at["teacher"])) for run in results.runs.values()}
    return [{"mixture": MIXTURES[place], "teacher": teacher} for place, teacher in sorted(every)]


KINDS_NOTE = (
    f"{FIVE_TASK} teachers learned from one chain and name the end of any; {FOLLOWING} ones follow the chain they are "
    "asked for (following)."
)


def redundant_table(results: Results) -> Table:
    """Two disjoint chains: what the paper's labels cover, and what families cover."""
    rows = []
    for at in teachers(results):
        dense, floor, greedily, attended, inside, outside = PAPER_REDUNDANT.get(tuple(at.values()), ("",) * 6)
        rows.append(
            (
                f"{at['mixture']} {at['teacher']}",
                with_paper(results.value("dense", **at), dense),
                with_paper(results.value("cover", **at, label="floored"), floor),
                with_paper(results.value("cover", **at, label="greedy"), greedily),
                with_paper(results.value("cover", **at, label="attention"), attended),
                *(with_interval(results.metric("family_cover", **at, label=search)) for search in SEARCHES),
                f"{results.value('family_size', **at, label='confirmed'):.1f}",
                with_paper(results.value("sufficient_singletons", **at, in_chain=True), inside),
                with_paper(results.value("sufficient_singletons", **at, in_chain=False), outside),
            )
        )
    counts = next(run.counts for run in results.runs.values() if "examples" in run.counts)
    return Table(
        name="tab-redundant",
        caption=(
            "Two disjoint chains to one answer, either sufficient: share of examples whose label holds a whole chain "
            "(the paper's in brackets, at 32 blocks). Ours: the union of the minimal sufficient sets found under the "
            "mask, under nonce records, and of those that hold among other nonces, with its size."
        ),
        columns=(
            "Teacher",
            "dense",
            "floored",
            "greedy",
            "attention",
            "ours, mask",
            "ours, nonce",
            "ours, confirmed",
            "size",
            "singletons in chain",
            "off chain",
        ),
        rows=tuple(rows),
        notes=(
            f"n = {counts['examples']}; greedy on the first {counts['searched']}, ours on those of them that a teacher "
            "answers.",
            KINDS_NOTE,
        ),
    )


def families_table(results: Results) -> Table:
    """What the searches for families found, and what they cost."""
    rows: list[tuple[str, ...]] = []
    for teacher in teachers(results):
        for search in SEARCHES:
            at: At = {**teacher, "label": search}
            rows.append(
                (
                    f"{teacher['mixture']} {teacher['teacher']}",
                    search,
                    *(
                        with_interval(results.metric(what, **at))
                        for what in ("cover", "family_cover", "chain_found", "both_chains_found", "exact_union")
                    ),
                    *(f"{results.value(what, **at):.1f}" for what in ("label_size", "family_size", "sets")),
                    f"{results.value('probes', **at):.0f}",
                    f"{results.value('tokens', **at):,.0f}",
                    str(results.metric("cover", **at).n),
                )
            )
        rows.append(())
    return Table(
        name="families",
        caption=(
            "Families of two disjoint chains. Cover: the union of the smallest sets found holds a whole chain; all: "
            "the union of all sets does. A chain, both: a chain, both chains are among the sets. Exact: the union of "
            "the smallest sets is the six chain blocks. Sizes: blocks of the two unions."
        ),
        columns=(
            "Teacher",
            "search",
            "cover",
            "cover, all",
            "a chain",
            "both chains",
            "exact",
            "size",
            "size, all",
            "sets",
            "probes",
            "tokens",
            "n",
        ),
        rows=tuple(rows[:-1]),
        notes=(KINDS_NOTE,),
    )


PAPER_REDUNDANT: dict[tuple[Coordinate, ...], tuple[str, ...]] = {
    (FIVE_TASK, 0): ("1.00", "0.003", "0.000", "0.007", "1.17", "0.27"),
    (FIVE_TASK, 1): ("0.99", "0.000", "0.000", "0.037", "1.07", "0.33"),
    (FIVE_TASK, 2): ("1.00", "0.007", "0.000", "0.063", "0.98", "0.36"),
    (FIVE_TASK, 4): ("0.82", "0.067", "0.110", "0.270", "1.19", "0.29"),
}
"""Dense; cover by floored, greedy, attention; singletons in and off chain. Seed 3 never learned chains."""

LABEL_BARS = {"floored": (0.1, "0.00 to 0.07"), "greedy": (0.15, "0.00 to 0.11"), "attention": (0.3, "0.01 to 0.27")}
"""The paper's labels -> how often one may hold a whole chain and still have missed the case; the paper's range."""
FOUND_BAR = 0.95


def redundant_claims(results: Results) -> list[Claim]:
    """Either chain is enough and no label of the paper holds one, on every five-task teacher; the families we find do.

    All bars were set before any of these teachers was searched.
    """

    def of(mixture: str, what: str, **at: Coordinate) -> list[Metric]:
        return [results.metric(what, **place, **at) for place in teachers(results) if place["mixture"] == mixture]

    def n(found: list[Metric]) -> str:
        return f"{len(found)} teachers × {min(metric.n for metric in found)} examples"

    enough = of(FIVE_TASK, "one_chain_suffices")
    covering = {name: of(FIVE_TASK, "cover", label=name) for name in LABEL_BARS}
    confirmed = {
        "every teacher": of(FIVE_TASK, "family_cover", label="confirmed"),
        "every teacher that follows chains": of(FOLLOWING, "family_cover", label="confirmed"),
    }
    return [
        every_claim(
            "Two chains to one answer: either alone is enough (0.95 or more), on every teacher",
            "0.99 to 1.00",
            enough,
            0.95,
            n(enough),
        ),
        *(
            none_claim(
                f"Two chains to one answer: the {name} label holds a whole one on at most {bar}, on every teacher",
                paper,
                covering[name],
                bar,
                n(covering[name]),
            )
            for name, (bar, paper) in LABEL_BARS.items()
        ),
        *(
            every_claim(
                f"Two chains to one answer: the family found holds a whole one on {FOUND_BAR} or more, on {where}",
                "not in it",
                found,
                FOUND_BAR,
                n(found),
            )
            for where, found in confirmed.items()
            if found
        ),
    ]


EXPERIMENT = Experiment(
    name=NAME,
    place=26,
    jobs=jobs,
    teachers=every_teacher(*MIXTURES),
    claims=redundant_claims,
    reports=(
        Report("tab:redundant", "labels", redundant_table),
        Report(
            "Families of two disjoint chains: every minimal sufficient set, its cost",
            "labels",
            families_table,
            beyond=True,
        ),
    ),
    choices=(
        Choice(
            "Two chains to one answer",
            "both first pointers carry the queried key; values and middle keys differ in nothing else",
        ),
    ),
)
