"""The main job on the embedded default, for somebody who has just cloned the repository."""

import shutil
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from transformers import PreTrainedModel

from keepset import seeds
from keepset.evaluation.dense import evaluate_dense
from keepset.interventions import Effects, Fast
from keepset.models.config import TeacherConfig
from keepset.models.presets import smoke
from keepset.models.teacher import load_teacher
from keepset.models.training import train_teacher
from keepset.readouts import answer_attention
from keepset.reports.terminal import metrics_table
from keepset.tasks import Vocabulary, sample_condition

EXAMPLES = 300
SHOWN = ("unique", "latest_write", "duplicate")


def run_quickstart(out: Path, console: Console) -> None:
    """Trains a smoke teacher in ``out`` from nothing, prints its accuracy, and draws one example per task."""
    torch.set_num_threads(1)  # matrices this small are slower on several threads, much slower on a busy machine
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
    console.print(
        "\nOne example each. attention: share of the answer position's. if hidden: change of the "
        "answer's log-probability. alone: this block alone is enough. evidence: known by construction.\n"
    )
    for name in SHOWN:
        show_example(model, config, name, console)
    console.print(f"The teacher is in {folder}. Next: keepset teacher train --preset small --out teacher")


def show_example(model: PreTrainedModel, config: TeacherConfig, condition: str, console: Console) -> None:
    """Draws one example, block by block: attention, what hiding it does to the answer, known evidence."""
    batch = sample_condition(
        condition, seeds.EVALUATION.seed(1), 1, config.n_blocks, config.block_width, config.vocabulary
    )
    example = batch.example(0)
    effects = Effects(batch, Fast(model))
    attention = answer_attention(model, batch.first_query(), batch.blocks).mean((1, 2))[0]  # (N,)
    words = config.vocabulary
    table = Table(
        title=f"{condition}: {spelled(example.tokens[example.query.start :], words)} → ?", title_justify="left"
    )
    table.add_column("block", justify="right")
    table.add_column("tokens", no_wrap=True)
    table.add_column("attention", justify="right")
    table.add_column("if hidden", justify="right")
    table.add_column("alone")
    table.add_column("evidence")
    for i, span in enumerate(example.blocks):
        known = i in example.evidence
        table.add_row(
            str(i),
            spelled(example.tokens[span.start : span.stop], words),
            f"{attention[i]:.2f}",
            f"{-effects.drop[0, i]:+.1f} nats",
            "enough" if effects.sufficient[0, i] else "",
            "●" if known else "",
            style="bold green" if known else None,
        )
    console.print(table)
    gold, given = words.name(example.answer[0]), "right" if effects.clean_correct[0] else "wrong"
    sets = sorted(sorted(keep) for keep in example.family or ())
    family = " or ".join("{" + ", ".join(map(str, keep)) + "}" for keep in sets)
    console.print(f"The answer is {gold}; the teacher is {given}. Known to suffice: {family}.\n")


def spelled(tokens: torch.Tensor, vocabulary: Vocabulary) -> str:
    return " ".join(vocabulary.name(int(token)) for token in tokens)
