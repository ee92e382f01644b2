"""The command line: each command is a few lines that call the library, one file per topic."""

import sys
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from typer.core import TyperGroup

from keepset.cli import evidence, explore, keeping, laboratory, start
from keepset.cli.shared import MARKUP, example
from keepset.terminal import one_line

COMMANDS = (
    "quickstart",
    "doctor",
    "models",
    "teacher",
    "explain",
    "label",
    "labels",
    "train",
    "prune",
    "ask",
    "compress",
    "explore",
    "bench",
    "reproduce",
    "report",
)
"""The order of the work, which is the order of ``--help``."""


class InOrder(TyperGroup):
    """Lists the commands in the order of the work."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [name for name in COMMANDS if name in self.commands]


app = typer.Typer(
    cls=InOrder,
    help="Find the context a language model's answer depends on, and keep only that.",
    epilog=example("keepset quickstart"),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=MARKUP,
)
for part in (start, evidence, keeping, explore, laboratory):
    app.add_typer(part.commands)  # without a name: its commands stand at the top


def _print_version(wanted: bool) -> None:
    if wanted:
        from keepset import __version__

        typer.echo(f"keepset {__version__}")
        raise typer.Exit


@app.callback()
def every_command(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and end.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Runs a command; expected errors are one clear line, not a traceback."""
    try:
        app()
    except (ValueError, OSError, FloatingPointError) as error:
        said = escape(one_line(str(error)))
        Console(stderr=True).print(f"[bold red]error:[/] {said}", highlight=False, soft_wrap=True)
        sys.exit(1)
