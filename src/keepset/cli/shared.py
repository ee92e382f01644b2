"""What the commands of every topic say and ask alike."""

import sys
from collections.abc import Sequence
from typing import Annotated, Literal

import typer
from rich.console import Console

from keepset.terminal import harmless, print_line

MARKUP: Literal["markdown"] = "markdown"
"""Of help texts."""

out_console = Console()
err_console = Console(stderr=True)

Device = Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps.")]
Quantize = Annotated[str | None, typer.Option(help="int8, on x86 CPUs; keepset doctor measures whether it is faster.")]
Model = Annotated[str, typer.Option(help="Bundled name, folder, .gguf file or hub id.")]
ModelOrDefault = Annotated[
    str, typer.Option(help="A name from 'keepset models list', a folder, a .gguf file or a hub id.")
]
Blocks = Annotated[str, typer.Option(help="sentence, paragraph, line or a number of tokens.")]
Effort = Annotated[
    str,
    typer.Option(help="evidence (every block alone), exact (hidden too), grouped or certified (cheaper than exact)."),
]


def topic() -> typer.Typer:
    """For the commands of one file; they stand at the top of the command line."""
    return typer.Typer(rich_markup_mode=MARKUP)


def example(command: str) -> str:
    """The last line of a command's help."""
    return f"Example: `{command}`"


def check_asked(model: str, questions: Sequence[str] = ()) -> None:
    """What is wrong with a name or a question, before torch is imported: that takes seconds."""
    from keepset.models.naming import kind_of_model

    kind_of_model(model)
    check_questions(questions)


def check_questions(questions: Sequence[str]) -> None:
    for question in questions:
        if not question.strip():
            raise ValueError(f"question: expected some text, got {question!r}")


def write_out(text: str) -> None:
    """What somebody wrote, as a command's result: harmless on a terminal, as it is in a file, and there at once."""
    shown = harmless(text.replace("\r\n", "\n")) if out_console.is_terminal else text
    sys.stdout.write(f"{shown}\n")  # rich and click would leave out some control characters
    sys.stdout.flush()


def say(text: str) -> None:
    """A line that may hold a name somebody else chose."""
    print_line(out_console, text)
