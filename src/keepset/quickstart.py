"""The main job in about forty lines that can be copied: ``run_on``. Label, train, prune, ask.

Documents with four facts hidden in them, a real model, and no question yet: which lines are worth keeping?
"""

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.progress import track
from transformers import PreTrainedModel, PreTrainedTokenizerBase

import keepset
from keepset import seeds
from keepset.files import write_text
from keepset.jobs.labelling import LabelRow
from keepset.jobs.stored import check_labels, stored_rows
from keepset.policies import Oracle
from keepset.quickstart_page import (
    PolicyCount,
    QuickstartOutcome,
    evidence_table,
    policy_table,
    quickstart_figure,
    quickstart_page,
    verdict,
)
from keepset.readouts import shared_layers
from keepset.text.document import BLOCK_TOKENS
from keepset.text.long_context import sample_documents

Place = tuple[str, float]
"""A policy's title and a budget."""

TASK = "multikey"
QUICKSTART_RUN = 7
"""Of the seed ranges: away from the experiments' documents."""
FILES = {"questions.jsonl", "labels", "router", "pruning.svg", "report.html"}
RIVALS = ("kvzip_max", "snapkv", "random")
"""The policy that came closest to the router when all of them stood here, the best known one, and chance. The others
are in the eviction benchmark."""
AT_LENGTH = " mentioned in the provided text?"
"""How RULER's questions end. The model repeats it in every answer, which is then half as long again."""
SHOWN = 2
"""Questions whose evidence is shown."""


@dataclass(frozen=True)
class QuickstartSize:
    """How much is done: minutes on two cores, most of them for labels."""

    training_documents: int = 8
    training_tokens: int = 256
    steps: int = 300
    held_out: int = 8
    held_out_tokens: int = 1_024
    budgets: tuple[float, ...] = (0.1, 0.25)
    """Shares of a document's lines."""


@dataclass(frozen=True)
class Fact:
    """A question about a document."""

    question: str
    answer: str
    """In the words the model would use."""
    line: int
    """Where it stands: only the row of known evidence is told."""


@dataclass(frozen=True)
class FactSheet:
    """A document with lines to keep or to drop, and what can be asked about it."""

    text: str
    facts: tuple[Fact, ...]


def run_quickstart(
    out: Path,
    console: Console,
    model_name: str = "smollm2-135m-instruct",
    size: QuickstartSize | None = None,
) -> QuickstartOutcome:
    """Labels, trains, prunes and asks; writes labels, a router, a picture and a page into ``out``."""
    check_folder(out)
    size = size or QuickstartSize()
    console.print(f"1. Load {model_name}", highlight=False)
    model, tokenizer = keepset.load_model(model_name)
    training = sample_sheets(tokenizer, seeds.ROUTER_DOCUMENTS, size.training_tokens, size.training_documents)
    held_out = sample_sheets(tokenizer, seeds.EVALUATION, size.held_out_tokens, size.held_out)
    return run_on(model, tokenizer, training, held_out, out, console, size)


def run_on(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    training: list[FactSheet],
    held_out: list[FactSheet],
    out: Path,
    console: Console,
    size: QuickstartSize,
) -> QuickstartOutcome:
    """``run_quickstart`` on a loaded model and documents of your own."""
    console.print("2. Hide lines and watch the answer: what it rests on, beside what it attends to")
    labels = label_sheets(model, tokenizer, training, out)
    for row in shown_rows(labels):
        console.print(evidence_table(row))

    console.print("3. Train two routers on these labels: on evidence, and on attention")
    routers = [keepset.train(labels, model, target=t, steps=size.steps) for t in ("causal", "imitation")]
    routers[0].save_pretrained(out / "router")

    console.print(f"4. Prune {len(held_out)} new documents before any question; then ask for every fact")
    # The chat prefix is always kept, so the first line need not be: policies choose every line.
    line_pruner = partial(keepset.Pruner, model, tokenizer, blocks="line", keep_first=False)
    policies: list[keepset.BlockRouter | str] = [*routers, *RIVALS]
    pruners = list(map(line_pruner, policies))
    answers, preserved, kept = list[int](), defaultdict[Place, list[int]](list), Counter[Place]()
    costs = defaultdict[str, list[float]](list)
    for sheet in track(held_out, "pruning", transient=True, disable=not console.is_terminal):
        known = line_pruner(Oracle(frozenset(fact.line for fact in sheet.facts)))
        with shared_layers():  # the whole document is read once, whoever looks at it
            whole = known.prune(sheet.text, budget=1.0)
            given = given_of(whole, sheet.facts)
            answers.append(len(given))
            for pruner in [*pruners, known]:
                found = pruner.prune_at(sheet.text, size.budgets)
                costs[pruner.policy.title].append(found[0].record.score_seconds / whole.record.prefill_seconds)
                for budget, pruned in zip(size.budgets, found, strict=True):
                    place = pruner.policy.title, budget
                    preserved[place].append(len(given_of(pruned, given)))
                    kept[place] += sum(fact.line in pruned.kept for fact in given)

    if not any(answers):
        raise ValueError("quickstart: expected the model to answer some questions from the whole document, got none")
    counts = tuple(
        PolicyCount(*place, tuple(found), kept[place], median(costs[place[0]]), place[0] == Oracle.title)
        for place, found in preserved.items()
    )
    questions = sum(len(sheet.facts) for sheet in training)
    outcome = QuickstartOutcome(
        routers[0].reads.name, size.held_out_tokens, len(training), questions, tuple(answers), counts
    )
    write_outcome(outcome, out, console)
    return outcome


def label_sheets(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, sheets: Sequence[FactSheet], out: Path
) -> Path:
    """The folder of labels of every question of the documents, line by line."""
    rows = [{"context": s.text, "question": f.question, "answer": f.answer} for s in sheets for f in s.facts]
    write_text(out / "questions.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    keepset.label(out / "questions.jsonl", (model, tokenizer), out / "labels", blocks="line")
    return out / "labels"


def given_of(pruned: keepset.PrunedContext, facts: Sequence[Fact]) -> list[Fact]:
    """Those whose answer the model still gives."""
    asked = [(fact.question, fact.answer) for fact in facts]
    return [fact for fact, given in zip(facts, pruned.gives_each(asked), strict=True) if given]


def check_folder(out: Path) -> None:
    """Never writes over somebody's work."""
    if out.exists() and (not out.is_dir() or {path.name for path in out.iterdir()} - FILES):
        raise ValueError(f"{out}: expected an empty folder or an earlier quickstart, got something else; pass --out")


def sample_sheets(
    tokenizer: PreTrainedTokenizerBase, seed_range: seeds.SeedRange, tokens: int, n: int
) -> list[FactSheet]:
    """Long documents of noise with four numbers in them, each on a line of its own."""
    sheets = []
    for document in sample_documents(TASK, tokenizer, seed_range.seed(QUICKSTART_RUN), tokens, n, BLOCK_TOKENS):
        lines = document.text.splitlines()
        facts = []
        for asked in document.questions:
            (number,) = asked.answers
            subject = asked.question.removeprefix("What is the ").removesuffix(AT_LENGTH)
            line = next(i for i, said in enumerate(lines) if number in said)
            facts.append(Fact(f"What is the {subject}?", f"The {subject} is {number}.", line))
        sheets.append(FactSheet(document.text, tuple(facts)))
    return sheets


def shown_rows(labels: Path) -> list[LabelRow]:
    """The first questions the model answers."""
    manifest = check_labels(labels)
    rows = stored_rows(labels, manifest)
    return list(islice((row for row in rows if row.clean_correct and row.evidence), SHOWN))


def write_outcome(outcome: QuickstartOutcome, out: Path, console: Console) -> None:
    """The table on the terminal; the picture and the page; and how to go on."""
    console.print(policy_table(outcome))
    console.print(verdict(outcome), highlight=False)
    write_text(out / "pruning.svg", quickstart_figure(outcome))
    write_text(out / "report.html", quickstart_page(outcome, shown_rows(out / "labels")))
    console.print(
        f"Written: {out / 'report.html'}, {out / 'pruning.svg'}, {out / 'router'}. Use the router:\n\n"
        "  import keepset\n"
        f'  model, tokenizer = keepset.load_model("{outcome.model}")\n'
        f'  pruner = keepset.Pruner(model, tokenizer, policy="{(out / "router").as_posix()}")\n'
        "  pruned = pruner.prune(text, budget=0.1)\n"
        '  pruned.ask("What is the special magic number for ...?")',
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
