"""How a part is made: five documents, every policy, before any question.

    fact_sheets/<model>-<part>      which answers survive, by policy, mode, router seed and budget

Routers learn what the quickstart's learn, from the same eight short documents; three starts each. The documents that
are judged come after the quickstart's own, so that nobody has looked at them.
"""

import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from statistics import fmean, median

from transformers import PreTrainedModel, PreTrainedTokenizerBase

import keepset
from keepset import seeds
from keepset.paper.bench.models import loaded
from keepset.paper.experiment import Jobs, run_result
from keepset.paper.result import At, Metric, RunResult
from keepset.policies import Oracle
from keepset.pruning.cache import EvictionMode
from keepset.quickstart import QUICKSTART_RUN, FactSheet, QuickstartSize, label_sheets, sample_sheets
from keepset.readouts import shared_layers

NAME = "fact_sheets"
MODEL = "smollm2-135m-instruct"
DOCUMENTS, PART, FACTS = 30, 5, 4
BUDGETS = (0.05, 0.1, 0.25)
"""Shares of a document's lines; three, six and thirteen of about fifty."""
STARTS = (0, 1, 2)
"""Seeds of the routers."""
RIVALS = ("kvzip", "kvzip_max", "snapkv", "expected_attention", "words", "random")
MODES: tuple[EvictionMode, ...] = ("text", "post_prefill")
"""Read beside ``global``, by the first causal router and with the facts known."""
GIVEN, LOST, NEVER = "1", "0", "."
"""An answer that survives, one that does not, one that the model does not give from the whole document either."""


@dataclass(frozen=True)
class Arm:
    """A policy as a part runs it."""

    pruner: keepset.Pruner
    start: int = 0
    """Of a router's training."""

    @property
    def at(self) -> At:
        return {"policy": self.pruner.policy.title, "mode": self.pruner.mode, "router_seed": self.start}


@dataclass
class Tally:
    """What one arm did at one budget, document by document."""

    marks: str = ""
    """A mark for every fact."""
    kept: int = 0
    """Facts of answers the model gives whose line was kept."""
    tokens: list[float] = field(default_factory=list)
    """Share of the document's tokens that stayed."""
    prefills: list[float] = field(default_factory=list)
    """What choosing took, in dense prefills."""

    def metrics(self, at: At) -> list[Metric]:
        given = len(self.marks) - self.marks.count(NEVER)
        share = self.marks.count(GIVEN) / max(given, 1)
        return [
            Metric(what="preserved", at=at, value=share, n=given, each=self.marks),
            Metric(what="facts_kept", at=at, value=self.kept / max(given, 1), n=given),
            Metric(what="tokens_kept", at=at, value=fmean(self.tokens), n=len(self.tokens)),
            Metric(what="prefills", at=at, value=median(self.prefills), n=len(self.prefills)),
        ]


def jobs(scale: str) -> Jobs:
    """One result per five documents. An untrained model answers nothing, so there is none at smoke."""
    if scale == "smoke":
        return {}
    return {f"{NAME}/{MODEL}-{part}": partial(run, scale, part) for part in range(DOCUMENTS // PART)}


def run(scale: str, part: int) -> RunResult:
    """Prunes and asks five documents."""
    started = time.monotonic()
    model, tokenizer = loaded(MODEL)
    size = QuickstartSize()
    sheets = fresh_sheets(tokenizer, part)
    tallies = judge(model, tokenizer, sheets, arms(model, tokenizer))
    return run_result(
        NAME,
        scale,
        started,
        at={"model": MODEL, "part": part},
        config={"tokens": size.held_out_tokens, "budgets": list(BUDGETS), "blocks": "line", "steps": size.steps},
        seeds={
            "router_documents": seeds.ROUTER_DOCUMENTS.seed(QUICKSTART_RUN),
            "evaluation": seeds.EVALUATION.seed(QUICKSTART_RUN),
        },
        counts={"documents": len(sheets), "facts": FACTS * len(sheets), "training_documents": size.training_documents},
        metrics=[metric for (arm, budget), tally in tallies for metric in tally.metrics({**arm, "budget": budget})],
    )


def fresh_sheets(tokenizer: PreTrainedTokenizerBase, part: int) -> list[FactSheet]:
    """Five documents; the first of the seed are the quickstart's own."""
    size = QuickstartSize()
    first = size.held_out + part * PART
    return sample_sheets(tokenizer, seeds.EVALUATION, size.held_out_tokens, first + PART)[first:]


@lru_cache(maxsize=1)
def arms(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> tuple[Arm, ...]:
    """Routers from three starts, and the rivals; labels are made once in a process."""
    size = QuickstartSize()
    training = sample_sheets(tokenizer, seeds.ROUTER_DOCUMENTS, size.training_tokens, size.training_documents)
    pruner = partial(keepset.Pruner, model, tokenizer, blocks="line", keep_first=False)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        labels = label_sheets(model, tokenizer, training, Path(folder))
        for target in ("causal", "imitation"):
            for start in STARTS:
                router = keepset.train(labels, model, target=target, steps=size.steps, seed=start)
                found.append(Arm(pruner(router), start))
                if (target, start) == ("causal", STARTS[0]):
                    found += [Arm(pruner(router, mode=mode), start) for mode in MODES]
    return (*found, *(Arm(pruner(rival)) for rival in RIVALS))


def judge(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, sheets: Sequence[FactSheet], arms: Sequence[Arm]
) -> list[tuple[tuple[At, float], Tally]]:
    """Every arm at every budget on every document; the facts known last."""
    tallies: dict[tuple[int, float], Tally] = defaultdict(Tally)
    every: list[Arm] = []
    for sheet in sheets:
        lines = Oracle(frozenset(fact.line for fact in sheet.facts))
        known = [
            Arm(keepset.Pruner(model, tokenizer, lines, mode, blocks="line", keep_first=False))
            for mode in ("global", *MODES)
        ]
        every = [*arms, *known]
        with shared_layers():  # the whole document is read once, whoever looks at it
            whole = known[0].pruner.prune(sheet.text, budget=1.0)
            asked = [(fact.question, fact.answer) for fact in sheet.facts]
            dense = whole.gives_each(asked)
            for place, arm in enumerate(every):
                for budget, pruned in zip(BUDGETS, arm.pruner.prune_at(sheet.text, BUDGETS), strict=True):
                    tally = tallies[place, budget]
                    said = pruned.gives_each(asked)
                    tally.marks += "".join(marked(now, then) for now, then in zip(said, dense, strict=True))
                    answered = [fact for fact, then in zip(sheet.facts, dense, strict=True) if then]
                    tally.kept += sum(fact.line in pruned.kept for fact in answered)
                    tally.tokens.append(tokens_kept(pruned))
                    tally.prefills.append(pruned.record.score_seconds / whole.record.prefill_seconds)
    return [((every[place].at, budget), tally) for (place, budget), tally in tallies.items()]


def marked(now: bool, dense: bool) -> str:
    return NEVER if not dense else GIVEN if now else LOST


def tokens_kept(pruned: keepset.PrunedContext) -> float:
    """Of the tokens that may be dropped."""
    blocks = pruned.record.blocks
    return sum(block.tokens for block in blocks if block.kept) / sum(block.tokens for block in blocks)
