"""The main job on the embedded default, for somebody who has just cloned the repository."""

import shutil
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from transformers import PreTrainedModel

from keepset import seeds
from keepset.blocks import Example
from keepset.evaluation.dense import evaluate_dense
from keepset.models.config import TeacherConfig
from keepset.models.presets import smoke
from keepset.models.teacher import load_teacher
from keepset.models.training import train_teacher
from keepset.reports.terminal import metrics_table
from keepset.tasks import Vocabulary, sample_condition

EXAMPLES = 300
SHOWN = ("unique", "latest_write", "duplicate")


def run_quickstart(out: Path, console: Console) -> None:
    """Trains a smoke teacher in ``out`` from nothing, prints its accuracy, and draws one example per task."""
    folder = out / "teacher"
    config = smoke("single-hop", seed=0)
    if folder.exists() and not (folder / "teacher.json").exists() and not (folder / "checkpoints").exists():
        raise ValueError(f"{folder}: expected an empty folder or an earlier quickstart, got something else")
    shutil.rmtree(folder, ignore_errors=True)
    console.print(f"Training a teacher of {config.architecture.layers} layers for {config.steps} steps ...")
    train_teacher(config, folder)
    model, config = load_teacher(folder)
    console.print(
        metrics_table("the teacher reads the whole context", evaluate_dense(model, config, [*SHOWN], EXAMPLES))
    )
    for name in SHOWN:
        show_example(model, config, name, console)
    console.print(f"The teacher is in {folder}. Next: keepset teacher train --preset small --out teacher")


def show_example(model: PreTrainedModel, config: TeacherConfig, condition: str, console: Console) -> None:
    """Draws the first example of a condition: every block, what is evidence, what the teacher answers."""
    batch = sample_condition(
        condition, seeds.EVALUATION.seed(1), 1, config.n_blocks, config.block_width, config.vocabulary
    )
    example = batch.example(0)
    predicted = answer(model, example)
    words = config.vocabulary
    table = Table(
        title=f"{condition}: {spelled(example.tokens[example.query.start :], words)} → ?", title_justify="left"
    )
    table.add_column("block", justify="right")
    table.add_column("tokens")
    table.add_column("evidence")
    for i, span in enumerate(example.blocks):
        needed = i in example.evidence
        table.add_row(
            str(i),
            spelled(example.tokens[span.start : span.stop], words),
            "●" if needed else "",
            style="bold green" if needed else None,
        )
    console.print(table)
    gold = words.name(example.answer[0])
    family = " or ".join(
        "{" + ", ".join(map(str, sorted(keep))) + "}" for keep in sorted(example.family or (), key=min)
    )
    console.print(f"answer {gold}, the teacher says {words.name(predicted)}; sufficient: {family}\n")


@torch.no_grad()
def answer(model: PreTrainedModel, example: Example) -> int:
    """The teacher's most likely next token."""
    return int(model(example.tokens[None], use_cache=False, logits_to_keep=1).logits[0, -1].argmax())


def spelled(tokens: torch.Tensor, vocabulary: Vocabulary) -> str:
    return " ".join(vocabulary.name(int(token)) for token in tokens)
