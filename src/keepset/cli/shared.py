"""What the commands of every topic say and ask alike."""

from collections.abc import Sequence
from typing import Annotated, Literal

import typer
from rich.console import Console

from keepset.terminal import print_line

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
    for question in questions:
        if not question.strip():
            raise ValueError(f"question: expected some text, got {question!r}")


def say(text: str) -> None:
    """A line that may hold a name somebody else chose."""
    print_line(out_console, text)
