"""What an answer rests on: for one text, for a data set, and the labels that come of it."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from keepset.cli.job import (
    SHARD_ROWS,
    Address,
    Engine,
    ShardRows,
    Split,
    Workers,
    columns_given,
    say_finished,
    stoppable,
)
from keepset.cli.shared import (
    Blocks,
    Device,
    Effort,
    Model,
    ModelOrDefault,
    Quantize,
    check_asked,
    example,
    out_console,
    say,
    topic,
)
from keepset.files import check_output, write_text
from keepset.text.reading import check_context

commands = topic()
labels_app = typer.Typer(
    help="Look at a folder of labels, count it, check it.",
    epilog=example("keepset labels stats labels"),
    no_args_is_help=True,
)
commands.add_typer(labels_app, name="labels")

LabelsFolder = Annotated[Path, typer.Argument(help="A folder written by 'keepset label'.")]


@commands.command(epilog=example('keepset explain --context letter.txt --question "Who signed it?"'))
def explain(
    context: Annotated[Path, typer.Option(help="Text file to look for evidence in; - reads standard input.")],
    question: Annotated[
        list[str], typer.Option(metavar="<str>", help="What to ask about it; repeat the option for several.")
    ],
    model: ModelOrDefault = "smollm2-135m-instruct",
    answer: Annotated[str | None, typer.Option(help="Explain this instead of the whole reply.")] = None,
    blocks: Blocks = "sentence",
    effort: Effort = "evidence",
    html: Annotated[Path | None, typer.Option(dir_okay=False, help="Write the report as one HTML page.")] = None,
    json: Annotated[
        Path | None, typer.Option(dir_okay=False, help="Write it as JSON; - writes only that, to standard output.")
    ] = None,
    device: Device = "cpu",
    yes: Annotated[bool, typer.Option("--yes", help="Go on even when it takes long.")] = False,
    quantize: Quantize = None,
) -> None:
    """Which sentences of a text a reply rests on, sentence by sentence; and whether the text answers at all."""
    for path in (html, None if str(json) == "-" else json):
        if path:
            check_output(path)
    check_context(context)
    check_asked(model, question)

    from keepset.explain import explain_file
    from keepset.explain.page import html_page
    from keepset.explain.report import json_text
    from keepset.models.quantize import check_quantize

    reports = explain_file(context, model, question, answer, blocks, effort, device, yes, check_quantize(quantize))
    if str(json) == "-":
        sys.stdout.write(json_text(reports))
    else:
        for i, report in enumerate(reports):
            out_console.print("\n" * bool(i), end="")
            report.show(out_console)
        if json:
            write_text(json, json_text(reports))
    if html:
        write_text(html, html_page(reports))


@commands.command(epilog=example("keepset label questions.jsonl --model smollm2-135m-instruct --out labels"))
def label(
    data: Annotated[
        str,
        typer.Argument(
            help="JSONL (gzip or not) or Parquet with context (or blocks), question, answer; candidates, id if wanted. "
            "Or the folder of a data set, datasets:NAME, or - for standard input."
        ),
    ],
    model: Model,
    out: Annotated[Path | None, typer.Option(help="Folder for the labels; an unfinished job goes on.")] = None,
    blocks: Blocks = "sentence",
    effort: Effort = "evidence",
    shard_rows: ShardRows = SHARD_ROWS,
    device: Device = "cpu",
    quantize: Quantize = None,
    workers: Workers = None,
    engine: Engine = "local",
    address: Address = None,
    column: Annotated[
        list[str] | None,
        typer.Option(metavar="<str>", help="question=query: a field has another name in the data; repeat the option."),
    ] = None,
    split: Split = None,
    estimate: Annotated[
        bool, typer.Option("--estimate", help="Only say how long it would take; --out is not needed.")
    ] = False,
) -> None:
    """Evidence sets for every row of a data set, as Parquet; run the same command again to go on."""
    columns = columns_given(column or [])
    if out is not None:
        check_output(out, folder=True)
    elif not estimate:
        raise ValueError("out: expected a folder for the labels, got none; give one with --out")
    if estimate and (engine != "local" or address or shard_rows != SHARD_ROWS):
        raise ValueError(
            "estimate: expected none of --engine, --address and --shard-rows beside it, because it is about this "
            "machine and writes nothing, got one of them; leave it out"
        )
    check_asked(model)

    from keepset.jobs import estimate as estimate_labelling
    from keepset.jobs import label as label_data
    from keepset.models.quantize import check_quantize

    rounded = check_quantize(quantize)
    if estimate or out is None:
        say(estimate_labelling(data, model, blocks, effort, device, rounded, workers, columns, split))
        return
    where = (workers, engine, address)
    with stoppable():
        done = label_data(data, model, out, blocks, effort, shard_rows, device, rounded, *where, columns, split)
    say_finished(done, "rows labelled", out)


@labels_app.command("show", epilog=example("keepset labels show labels --rows 3"))
def labels_show(
    folder: LabelsFolder,
    rows: Annotated[int, typer.Option("--rows", "-n", min=1, help="How many.")] = 5,
    line: Annotated[int | None, typer.Option(min=1, help="Only the row of this line of the data.")] = None,
) -> None:
    """Rows as a person reads them: question, answer, and the blocks that the answer rests on."""
    from keepset.jobs.looking import show_rows

    show_rows(folder, rows, line, out_console)


@labels_app.command("verify", epilog=example("keepset labels verify labels"))
def labels_verify(folder: LabelsFolder) -> None:
    """Check every byte and every row; the error names the shard that is damaged."""
    from keepset.jobs.looking import show_verified

    show_verified(folder, out_console)


@labels_app.command("stats", epilog=example("keepset labels stats labels"))
def labels_stats(folder: LabelsFolder) -> None:
    """Counts: rows, rejects by reason, evidence by size and case, what it cost."""
    from keepset.jobs.looking import show_statistics

    show_statistics(folder, out_console)
