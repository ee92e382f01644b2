"""Natural text: counterfactual SQuAD, the paragraph at the end of Section 7 as a table.

    counterfactual_squad/<model>/dev-<part>      dense; the sentence found by masking; the gold sentence alone; routers

Needs SQuAD v1.1 in a folder: ``keepset reproduce counterfactual_squad --data FOLDER``. Routers learn from other
articles than are asked.
"""

import time
from functools import lru_cache, partial
from operator import attrgetter
from pathlib import Path

from torch import Tensor, nn

from keepset import seeds
from keepset.blocks import KeepSet
from keepset.paper.claim import Claim
from keepset.paper.eviction.tally import Outcome, share_of
from keepset.paper.experiment import Choice, Experiment, Jobs, Report, run_result
from keepset.paper.pretrained.counterfactual import DEV, SENTENCES, TUNE, counterfactuals
from keepset.paper.pretrained.judge import choosing, judge
from keepset.paper.pretrained.lessons import RECOVERED, effects_of, labelled, vocabulary
from keepset.paper.pretrained.pool import (
    INTERVAL_NOTE,
    cell,
    count,
    models,
    paired_gap,
    paper_rows,
    part_jobs,
    pooled_share,
)
from keepset.paper.pretrained.readings import ATTENTION, best, chance
from keepset.paper.pretrained.routers import WORDS, router_tokens, score_records, shared_words, train_record_routers
from keepset.paper.pretrained.scaling import necessary
from keepset.paper.pretrained.settings import BUDGET, RUN, Setting, frozen
from keepset.paper.pretrained.written import ahead_claim, bar_claim, config, counted
from keepset.paper.result import Metric, RunResult
from keepset.paper.results import Results
from keepset.paper.table import Table
from keepset.routers.targets import as_distribution
from keepset.text.example import TextExample

NAME = "counterfactual_squad"
DATA = Path("data")
"""Where SQuAD is looked for unless ``--data`` says otherwise."""
ORACLE, RANDOM = "oracle", "random"
FINDS = 0.85
"""Share of solved questions whose gold sentence hiding has to find."""
SELECTIONS = (RECOVERED, ATTENTION, WORDS, ORACLE, RANDOM)


def jobs(scale: str, data: Path = DATA) -> Jobs:
    """One result per model and part."""
    return part_jobs(scale, NAME, {DEV: (attrgetter("articles"), partial(run, scale, data))})


@lru_cache(maxsize=1)
def sentence_routers(scale: str, setting: Setting, data: Path) -> dict[str, nn.Module]:
    """Label -> span router; none for a model without lessons."""
    n = setting.article_lessons
    if not n:
        return {}
    lessons = counterfactuals(setting, data, TUNE, n)

    def some(numbers: range) -> list[TextExample]:
        return lessons[numbers.start : numbers.stop]

    drop, attention = (labelled(scale, setting, "squad", label, some, n) for label in (RECOVERED, ATTENTION))
    targets: dict[str, Tensor] = {RECOVERED: necessary(drop).unsqueeze(1), ATTENTION: as_distribution(attention)}
    return train_record_routers("span", vocabulary(setting), router_tokens(lessons), targets, setting.least_steps)


def run(scale: str, data: Path, setting: Setting, part: int, numbers: range) -> RunResult:
    """One part."""
    started = time.monotonic()
    examples = counterfactuals(setting, data, DEV, setting.articles)[numbers.start : numbers.stop]
    kept: dict[str, list[KeepSet]] = {
        label: [best(row, BUDGET) for row in score_records(router, examples)]
        for label, router in sentence_routers(scale, setting, data).items()
    }
    kept[WORDS] = [best(row, BUDGET) for row in shared_words(frozen(setting)[1], examples)]
    kept[ORACLE] = [example.evidence for example in examples]
    kept[RANDOM] = [best(chance(SENTENCES, number), BUDGET) for number in numbers]
    judged = judge(choosing(setting, examples), lambda i, solved: {name: sets[i] for name, sets in kept.items()})
    gold = [frozenset(row.nonzero().flatten().tolist()) for row in necessary(effects_of(setting, examples).drop)]
    agrees = [example.evidence == label for example, label in zip(examples, gold, strict=True)]
    solved: list[Outcome] = [a if s else None for a, s in zip(agrees, judged.dense, strict=True)]
    metrics: list[Metric | None] = [share_of("dense", judged.dense)]
    metrics += [share_of("recovered", agrees, among="all"), share_of("recovered", solved, among="solved")]
    for name, sets in kept.items():
        has = [example.evidence <= keep for example, keep in zip(examples, sets, strict=True)]
        metrics += [judged.share("routed", name, selection=name), share_of("recall", has, selection=name)]
    return run_result(
        NAME,
        scale,
        started,
        at={"model": setting.name, "task": "squad", "records": SENTENCES, "part": part},
        config=config(setting),
        seeds={"evaluation": seeds.EVALUATION.seed(RUN), "statistics": seeds.STATISTICS.seed(RUN)},
        counts={"examples": len(examples), "lessons": setting.article_lessons},
        metrics=counted(metrics),
        command=f"keepset reproduce {NAME} --data FOLDER",
    )


PAPER = """
Qwen2.5 (which, not said) | - | 0.64 | 0.92 | - | 0.47 | 0.35 | - | 0.77 | - | 0.59 | 0.41 | -
"""


def squad_table(results: Results) -> Table:
    """Dense, recovery, and what two sentences are worth."""
    rows = []
    for model in models(results):
        at = {"model": model}
        rows.append(
            (
                model,
                count(results, "dense", **at),
                cell(results, "dense", **at),
                *(cell(results, "recovered", among=among, **at) for among in ("all", "solved")),
                *(cell(results, "routed", selection=name, **at) for name in SELECTIONS),
                *(cell(results, "recall", selection=name, **at) for name in SELECTIONS[:3]),
            )
        )
    lessons = ", ".join(f"{r.at['model']} {r.counts['lessons']:,}" for r in results.runs.values() if r.at["part"] == 0)
    return Table(
        name="counterfactual-squad",
        caption=(
            "Counterfactual SQuAD dev, 16 sentences, forced choice among four answers of one kind: accuracy with "
            "everything visible; how often hiding the gold sentence costs the answer most; accuracy from two sentences "
            "of a router that learned recovered labels or attention, from the two that share most words with the "
            "question (BM25), from the gold sentence, and from two at random; how often the gold sentence is kept."
        ),
        columns=(
            "Model",
            "n",
            "Dense",
            "Recovered",
            "Recovered, solved",
            "Recovered labels",
            "Imitation",
            "BM25",
            "Oracle",
            "Random",
            "Gold kept, recovered labels",
            "Gold kept, imitation",
            "Gold kept, BM25",
        ),
        rows=(*rows, *paper_rows(PAPER)),
        notes=(
            INTERVAL_NOTE,
            "Some questions share an article, and intervals take them for independent.",
            f"Lessons of the routers: {lessons}. SQuAD: CC BY-SA 4.0, Rajpurkar et al. 2016.",
        ),
    )


def squad_claims(results: Results) -> list[Claim]:
    """Hiding finds the sentence; what learned from it keeps it more often than what learned from attention."""
    claims = []
    for model in models(results):
        recovered = pooled_share(results, "recovered", model=model, among="solved")
        if recovered:
            text = f"Counterfactual SQuAD ({model}): hiding finds the gold sentence on at least {FINDS} of solved"
            claims.append(bar_claim(text, "0.92 (of solved or of all, not said)", recovered, FINDS, "solved"))
        there = results.where(model=model)
        for rival, title, paper in ((ATTENTION, "imitation", "+0.18"), (WORDS, "BM25", "not compared")):
            gap = paired_gap(there, "recall", {"selection": RECOVERED}, {"selection": rival})
            if gap:
                text = f"Counterfactual SQuAD, two sentences ({model}): recovered labels keep gold ahead of {title}"
                claims.append(ahead_claim(text, paper, gap, "questions"))
    return claims


EXPERIMENT = Experiment(
    NAME,
    place=85,
    jobs=jobs,
    jobs_on=jobs,
    reports=(Report("Section 7, counterfactual SQuAD", "pretrained", squad_table),),
    claims=squad_claims,
    choices=(
        Choice(
            "Candidates of counterfactual SQuAD",
            "the substitute, the true answer, and two other answers of the same kind (year, number, name, words)",
        ),
    ),
)
