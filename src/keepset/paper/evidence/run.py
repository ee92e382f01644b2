"""How a run is made: one file per model, set of questions, tool and part.

A part is 20 questions, so that a stopped run loses at most one, and a new tool runs alone. Parts come before tools: the
first questions have every tool early. What every tool is measured with (the answer under random masks, and without the
best sentences) is read once per part while a process lasts.
"""

import time
from functools import lru_cache, partial
from pathlib import Path

import torch
from pydantic import Field
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from keepset import seeds
from keepset.files import Frozen
from keepset.models.quantize import Quantize
from keepset.paper.bench.engine import peers
from keepset.paper.bench.models import TINY, loaded, short_name
from keepset.paper.bench.timing import one_thread
from keepset.paper.evidence.about import OURS, run_about, run_about_documents
from keepset.paper.evidence.documents import document_units, outcome_of_each
from keepset.paper.evidence.focus import FOCUS, run_focus
from keepset.paper.evidence.found import FOUND, run_found
from keepset.paper.evidence.measure import HALVES, Truth, metrics, outcome, truth_of
from keepset.paper.evidence.replies import PARAGRAPH_REPLIES, REPLIES, article_units, run_replies
from keepset.paper.evidence.tools import AS_INSTALLED, GRADIENT, PEERS, TOOLS
from keepset.paper.evidence.units import DEV, RUN, TUNE, Unit, squad_units, two_hop_units
from keepset.paper.experiment import Jobs, run_result
from keepset.paper.result import RunResult

NAME = "evidence"
SMALL_MODEL, LARGE_MODEL = "smollm2-135m-instruct", "qwen2.5-coder-1.5b-instruct"
DATA = Path("data")
"""Where SQuAD is looked for unless ``--data`` says otherwise."""
SQUAD, ARTICLES, TWO_HOP, DOCUMENTS = "squad", "articles", "two-hop", "documents"


class Setting(Frozen):
    """One model and how much it is asked."""

    model: str
    """Bundled model, or 'tiny' for untrained weights."""
    quantize: Quantize | None = None
    """How its weights are rounded."""
    tools: tuple[str, ...] = Field(default_factory=lambda: tuple(TOOLS))
    """Those that are asked."""
    questions: int
    """Of SQuAD dev."""
    tuning: int
    """Paragraphs of other articles, on which the threshold of what a text is about is chosen."""
    fresh: int
    """Paragraphs of SQuAD dev, on which it is judged."""
    two_hop: int
    """Constructed documents."""
    documents: int = 40
    """At most so many questions of our own documents."""
    replies: int = 40
    """At most so many articles of 25 sentences: the gold answer, and the model's own reply explained."""
    paragraph_replies: int = 0
    """Of the questions of SQuAD dev, so many once more, with the model's own reply."""
    focus: int = 0
    """Of the questions of SQuAD dev, so many with replies to parts of the paragraph."""
    found: int = 0
    """At most so many questions of each half of the passages that nobody wrote for keepset."""
    part: int = 20
    """Questions of one file."""
    costed: int | None = None
    """In so many parts every tool reads for itself, so that its cost can be told (None: in all). In the others tools
    share what was read: a large model takes hours otherwise."""
    halves: int = HALVES
    """Random half-masks of the linear datamodelling score; of a large model only in parts whose costs are not told,
    because there every tool's scores are to be had from what one of them read."""

    @property
    def name(self) -> str:
        """In files and tables."""
        return short_name(self.model, self.quantize)

    def loaded(self) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
        return loaded(self.model, self.quantize)

    def shares(self, part: int) -> bool:
        """Tools of this part share what was read."""
        return self.costed is not None and part >= self.costed

    def halves_of(self, part: int) -> int:
        """Random half-masks that are read in it."""
        return self.halves if self.costed is None or self.shares(part) else 0


def settings(scale: str) -> tuple[Setting, ...]:
    """Sizes of a scale; ``small`` and ``paper`` ask the same of the same models. The large one is asked with every tool
    where its products are of whole numbers, for half the time; a gradient needs the others."""
    if scale == "smoke":
        return (
            Setting(
                model=TINY,
                questions=3,
                tuning=3,
                fresh=3,
                two_hop=2,
                documents=2,
                replies=1,
                paragraph_replies=2,
                focus=3,
                found=3,
                part=2,
                costed=1,
            ),
        )
    return (
        Setting(
            model=SMALL_MODEL,
            questions=200,
            tuning=600,
            fresh=600,
            two_hop=60,
            paragraph_replies=200,
            focus=200,
            found=40,
        ),
        Setting(
            model=SMALL_MODEL,
            quantize="int8",
            tools=("keepset evidence",),
            questions=200,
            tuning=0,
            fresh=0,
            two_hop=0,
            documents=0,
            halves=0,
        ),
        Setting(
            model=LARGE_MODEL,
            tools=("keepset evidence", "bm25", GRADIENT),
            questions=60,
            tuning=100,
            fresh=60,
            two_hop=0,
            documents=0,
            replies=0,
            halves=0,
        ),
        Setting(
            model=LARGE_MODEL,
            quantize="int8",
            tools=tuple(tool for tool in TOOLS if tool not in (GRADIENT, AS_INSTALLED)),
            questions=80,
            tuning=0,
            fresh=0,
            two_hop=0,
            documents=0,
            replies=0,
            costed=1,
        ),
    )


def jobs(scale: str, data: Path = DATA) -> Jobs:
    """Model by model: every tool on part after part of SQuAD, then whether texts are about questions, whole
    explanations, two-hop questions, documents."""
    every: Jobs = {}
    for setting in settings(scale):
        folder = f"{NAME}/{setting.name}"
        for part in parts(setting.questions, setting.part):
            for tool in setting.tools:
                if tool == AS_INSTALLED and part:
                    continue
                every[f"{folder}/{SQUAD}/{file_name(tool)}-{part}"] = partial(
                    run_tool, scale, setting, data, SQUAD, tool, part
                )
        for split, size in ((TUNE, setting.tuning), (DEV, setting.fresh)):
            for part in parts(size, setting.part):
                every[f"{folder}/about/{split}-{part}"] = partial(
                    run_about, scale, setting.model, data, split, size, setting.part, part
                )
        if setting.documents:
            every[f"{folder}/about/{OURS}-0"] = partial(run_about_documents, scale, setting.model)
        for kind, size in ((REPLIES, setting.replies), (PARAGRAPH_REPLIES, setting.paragraph_replies)):
            for part in parts(size, setting.part):
                every[f"{folder}/{kind}/explain-{part}"] = partial(
                    run_replies, scale, setting.model, setting.quantize, data, kind, size, setting.part, part
                )
        for part in parts(setting.focus, setting.part):
            every[f"{folder}/{FOCUS}/replies-{part}"] = partial(
                run_focus, scale, setting.model, setting.quantize, data, setting.focus, setting.part, part
            )
        for half in (1, 2) if setting.found else ():
            every[f"{folder}/{FOUND}/half-{half}"] = partial(run_found, scale, setting.model, half, setting.found)
        for name, size in (
            (ARTICLES, setting.replies),
            (TWO_HOP, setting.two_hop),
            (DOCUMENTS, min(setting.documents, len(document_units()))),
        ):
            for part in parts(size, setting.part):
                for tool in (tool for tool in setting.tools if tool != AS_INSTALLED):
                    every[f"{folder}/{name}/{file_name(tool)}-{part}"] = partial(
                        run_tool, scale, setting, data, name, tool, part
                    )
    return every


def parts(questions: int, size: int) -> range:
    return range(-(-questions // size))


def file_name(tool: str) -> str:
    return tool.replace(" ", "-")


def run_tool(scale: str, setting: Setting, data: Path, questions: str, tool: str, part: int) -> RunResult:
    """One tool on one part of one set of questions."""
    started = time.monotonic()
    model, tokenizer = setting.loaded()
    with one_thread():
        truths = part_truths(setting, data, questions, part)
        ready = TOOLS[tool](model, tokenizer)
        warm_up(model)
        outcomes = [outcome(ready, truth, model) for truth in truths]
    return run_result(
        NAME,
        scale,
        started,
        at={"model": setting.name, "questions": questions, "tool": tool, "part": part},
        config={
            "questions": questions,
            "part_size": setting.part,
            "threads": 1,
            "dtype": str(next(model.parameters()).dtype).removeprefix("torch."),
            "half_masks": setting.halves_of(part),
            **({"peers": peers.versions()} if tool in PEERS else {}),
        },
        seeds={"evaluation": seeds.EVALUATION.seed(RUN), "intervention": seeds.INTERVENTION.seed(RUN)},
        counts={"questions": len(truths), "sentences": sum(truth.task.n_blocks for truth in truths)},
        metrics=[*metrics(outcomes), *(outcome_of_each(truths, outcomes) if questions == DOCUMENTS else ())],
        command=f"keepset bench {NAME} --data FOLDER --only {setting.name}/{questions}/{file_name(tool)}-{part}",
    )


@lru_cache(maxsize=1)
def part_truths(setting: Setting, data: Path, questions: str, part: int) -> list[Truth]:
    """The questions of a part, with what has been read of them so far."""
    model, tokenizer = setting.loaded()
    chosen = part_units(setting, data, questions)[part * setting.part : (part + 1) * setting.part]
    return [truth_of(unit, model, tokenizer, setting.halves_of(part), setting.shares(part)) for unit in chosen]


def part_units(setting: Setting, data: Path, questions: str) -> list[Unit]:
    """All questions of a set."""
    if questions == SQUAD:
        return squad_units(data, setting.questions)
    if questions == ARTICLES:
        return article_units(data)[: setting.replies]
    return two_hop_units(setting.two_hop) if questions == TWO_HOP else document_units()[: setting.documents]


@lru_cache(maxsize=1)
def warm_up(model: PreTrainedModel) -> None:
    """The first forward of a process pays for allocations; nobody's time."""
    with torch.inference_mode():
        model(torch.arange(64, device=model.device)[None], use_cache=False)
