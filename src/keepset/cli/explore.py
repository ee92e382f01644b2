"""The web page on this machine."""

from pathlib import Path
from typing import Annotated

import typer

from keepset.cli.shared import Device, ModelOrDefault, check_asked, example, say, topic

commands = topic()


@commands.command(epilog=example("keepset explore --model smollm2-135m-instruct"))
def explore(
    model: ModelOrDefault = "smollm2-135m-instruct",
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="The first free one from 7860 on if none.")] = None,
    results: Annotated[
        Path | None, typer.Option(file_okay=False, exists=True, help="Of the paper; docs/results of the repository.")
    ] = None,
    device: Device = "cpu",
) -> None:
    """A page on this machine: what a reply rests on, what of a document to keep, and the paper claim by claim."""
    check_asked(model)

    from keepset.explore.server import explore as serve_page

    serve_page(model, port, results, device, say)
