"""Keeping what matters: train a router, prune a document, ask it, make texts short."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperOption

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
    Device,
    Model,
    Quantize,
    check_asked,
    check_questions,
    err_console,
    example,
    out_console,
    say,
    topic,
    write_out,
)
from keepset.files import check_output, write_text
from keepset.terminal import print_line
from keepset.text.reading import check_context, read_context

commands = topic()


@commands.command(epilog=example("keepset train labels --out router"))
def train(
    labels: Annotated[Path, typer.Argument(help="A folder written by 'keepset label'.")],
    out: Annotated[Path, typer.Option(help="Folder for the router.")],
    regime: Annotated[str, typer.Option(help="pre_query (never sees a question) or query_aware.")] = "pre_query",
    target: Annotated[str, typer.Option(help="causal (evidence sets) or imitation (attention).")] = "causal",
    model: Annotated[str | None, typer.Option(help="Where the labels' model is now, if it has moved.")] = None,
    steps: Annotated[int, typer.Option(min=1, help="Training steps.")] = 300,
    seed: Annotated[int, typer.Option(min=0, max=999, help="Run number: the weights it starts from.")] = 0,
    device: Device = "cpu",
) -> None:
    """Train a router on labels: it scores the blocks of new documents for 'keepset prune'."""
    check_output(out, folder=True)

    from keepset.jobs.training import train as train_router
    from keepset.routers.network import check_replaceable
    from keepset.routers.trained_blocks import describe

    check_replaceable(out)
    router = train_router(labels, model, regime, target, steps, seed, device)
    router.save_pretrained(out)
    cut = describe(router.blocks)
    say(f"router in {out}: {router.regime}, {router.target}, for {router.reads.name} and {cut}")


class NamesPolicies(TyperCommand):
    """Names the policies when help is asked for: importing them loads torch."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        from keepset.policies import POLICIES

        for parameter in self.params:
            if isinstance(parameter, TyperOption) and parameter.name == "policy":
                parameter.help = f"Instead of a router: {', '.join(POLICIES)}."
        super().format_help(ctx, formatter)


@commands.command(
    cls=NamesPolicies,
    epilog=example("keepset prune letter.txt --model smollm2-135m-instruct --policy kvzip --out letter.pruned"),
)
def prune(
    document: Annotated[Path, typer.Argument(help="Text file to prune; - reads standard input.")],
    model: Model,
    out: Annotated[Path, typer.Option(help="Folder for the pruned document, for 'keepset ask'.")],
    router: Annotated[Path | None, typer.Option(help="A trained block router, for this model.")] = None,
    policy: Annotated[str | None, typer.Option(help="Instead of a router: the name of a policy.")] = None,
    budget: Annotated[str, typer.Option(help="0.1 of the blocks, 12 blocks, or '0.25 tokens' of the tokens.")] = "0.1",
    mode: Annotated[str, typer.Option(help="How what is kept is read: global, post_prefill or text.")] = "global",
    blocks: Annotated[
        str | None,
        typer.Option(help="A number of tokens, paragraph, sentence or line; the router's own, sentence without one."),
    ] = None,
    question: Annotated[str | None, typer.Option(help="For policies that are to see it; not needed.")] = None,
    text: Annotated[Path | None, typer.Option(dir_okay=False, help="Also write what was kept as text.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a pruned document that is there.")] = False,
    device: Device = "cpu",
    quantize: Quantize = None,
) -> None:
    """Keep what a document's later questions will need, and really drop the rest; no question needed yet."""
    check_output(out, folder=True)
    if text:
        check_output(text)
    written = read_context(document)
    check_asked(model, [] if question is None else [question])

    from keepset.models.quantize import check_quantize
    from keepset.pruning.commands import prune_text

    with err_console.status("reading the document"):  # shows on a terminal alone
        chosen = (policy, router, budget, mode, blocks, question)
        pruned = prune_text(written, model, *chosen, out, force, device, check_quantize(quantize))
    if text:
        write_text(text, pruned.text + "\n")
    pruned.report().show(out_console)
    say(f"written to {out}")


@commands.command(epilog=example('keepset ask letter.pruned "Who signed it?"'))
def ask(
    pruned: Annotated[Path, typer.Argument(help="A folder written by 'keepset prune'.")],
    question: Annotated[str, typer.Argument(help="What to ask about the document.")],
    model: Annotated[str | None, typer.Option(help="Where the same model is now, if it has moved.")] = None,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Longest answer.")] = 64,
    device: Device = "cpu",
) -> None:
    """Ask a pruned document; the dropped parts are not read again."""
    if not pruned.is_dir():
        raise ValueError(
            f"{pruned}: expected a folder written by 'keepset prune', got {'a file' if pruned.exists() else 'none'}"
        )
    check_questions([question])

    from keepset.pruning.commands import load_pruned_context

    with err_console.status("answering"):
        context = load_pruned_context(pruned, model, device)
        answer = context.ask(question, max_new_tokens)
    write_out(answer)
    print_line(err_console, context.read_share)


@commands.command(epilog=example("keepset compress letter.txt --budget 0.25"))
def compress(
    document: Annotated[
        Path,
        typer.Argument(
            help="Text file; - reads standard input as it comes. With --out: a folder of text files, or JSONL (gzip or "
            "not), Parquet or datasets:NAME with text, and id if wanted."
        ),
    ],
    budget: Annotated[str, typer.Option(help="0.25 of the tokens, or 500 tokens; of each text.")] = "0.25",
    question: Annotated[str | None, typer.Option(help="Keep what answers this; not needed.")] = None,
    device: Device = "cpu",
    out: Annotated[Path | None, typer.Option(help="Folder for many texts; an unfinished job goes on.")] = None,
    workers: Workers = None,
    engine: Engine = "local",
    address: Address = None,
    shard_rows: ShardRows = SHARD_ROWS,
    column: Annotated[
        list[str] | None,
        typer.Option(metavar="<str>", help="text=body: a field has another name in the table; repeat the option."),
    ] = None,
    split: Split = None,
) -> None:
    """Make texts short for any engine: their most useful sentences, whole and in order; one goes to standard output."""
    if out is not None:
        _compress_many(document, out, budget, question, device, (workers, engine, address), shard_rows, column, split)
        return
    many = workers or address or engine != "local" or shard_rows != SHARD_ROWS or column or split
    if document.is_dir() or many:
        raise ValueError("out: expected a folder for what is kept of many texts, got none; give one with --out")
    check_context(document)

    from keepset.compression.commands import compress_standard_input, compress_text

    if str(document) == "-":
        for part in compress_standard_input(budget, question, device):
            write_out(part)
        return
    with err_console.status("reading the document"):
        short = compress_text(read_context(document), budget, question, device)
    write_out(short.text)
    print_line(err_console, f"{short.tokens_after:,} of {short.tokens_before:,} tokens kept")


def _compress_many(
    data: Path,
    out: Path,
    budget: str,
    question: str | None,
    device: str,
    where: tuple[int | None, str, str | None],
    shard_rows: int,
    column: list[str] | None,
    split: str | None,
) -> None:
    check_output(out, folder=True)

    from keepset.compression.compressor import parse_text_budget
    from keepset.jobs import compress_data

    columns, allowed = columns_given(column or []), parse_text_budget(budget)
    with stoppable():
        done = compress_data(data, out, allowed, question, shard_rows, device, *where, columns, split)
    say_finished(done, "texts compressed", out)
