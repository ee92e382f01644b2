"""The command line: each command is a few lines that call the library, one file per topic."""

import os
import sys
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from typer.core import TyperGroup

from keepset.cli import evidence, explore, keeping, laboratory, start
from keepset.cli.shared import MARKUP, example
from keepset.terminal import one_line

PANELS = {
    "Start here": ("quickstart", "doctor", "models"),
    "Your own text": ("explain", "compress", "explore"),
    "Your own data, model and router": ("label", "labels", "train", "prune", "ask"),
    "The paper and its testbed": ("teacher", "bench", "reproduce", "report"),
}
COMMANDS = tuple(name for names in PANELS.values() for name in names)
"""The order of ``--help``: what most people come for first, the testbed last."""


class InPanels(TyperGroup):
    """Lists the commands by what they are for."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [name for name in COMMANDS if name in self.commands]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        command: Any = super().get_command(ctx, cmd_name)
        if command is not None:
            command.rich_help_panel = next(panel for panel, names in PANELS.items() if cmd_name in names)
        return command


app = typer.Typer(
    cls=InPanels,
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


def wait_briefly() -> None:
    """Threads of torch that wait for each other give the processor back soon, unless the user has said how they wait.

    By default they keep it for milliseconds, which slows everything down where other work runs. Read when torch is
    imported, which commands do later.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "10000")


def main() -> None:
    """Runs a command; expected errors are one clear line, not a traceback."""
    wait_briefly()
    try:
        app()
    except (ValueError, OSError, FloatingPointError) as error:
        _end_with(str(error))
    except (MemoryError, RuntimeError) as error:
        from keepset.models.memory import is_out_of_memory  # what fails so has imported torch already

        if not is_out_of_memory(error):
            raise
        why = str(error).partition("\n")[0] or "Python has no more"
        _end_with(
            f"memory: expected enough for the model and the text, got too little ({why}); take a smaller model, a "
            "shorter text or --quantize int8"
        )


def _end_with(error: str) -> NoReturn:
    said = escape(one_line(error))
    Console(stderr=True).print(f"[bold red]error:[/] {said}", highlight=False, soft_wrap=True)
    sys.exit(1)
