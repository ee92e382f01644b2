"""The main job on the embedded default, for somebody who has just cloned the repository.

Documents with four facts hidden in them, a real model, and no question yet: which blocks are worth keeping?
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from keepset import seeds
from keepset.files import write_text
from keepset.interventions import Effects, Fast, TeacherForced
from keepset.labels import evidence_sets
from keepset.models.loading import load_model
from keepset.paper.eviction.reader import Reader, Tally
from keepset.paper.eviction.routers import router_examples
from keepset.policies import H2O, Context, KVzip, Oracle, Policy, Random, Recency, SnapKV, score_checked
from keepset.policies.routed import Routed
from keepset.pruning.budget import Budget, select
from keepset.quickstart_page import BlockRow, KeptRow, LabelledDocument, Quickstart, quickstart_figure, quickstart_page
from keepset.readouts import answer_attention, pool_attention, shared_layers
from keepset.routers.block import ReadModel
from keepset.routers.block_training import train_block_routers
from keepset.routers.features import early_layers
from keepset.text.document import Document
from keepset.text.long_context import sample_documents


@dataclass(frozen=True)
class Plan:
    """How much is done: minutes on two cores."""

    task: str = "multikey"
    labelled: int = 2
    """Documents whose evidence is found live, by hiding blocks."""
    training_documents: int = 32
    training_tokens: int = 512
    steps: int = 300
    held_out: int = 8
    held_out_tokens: int = 1_024
    budgets: tuple[float, ...] = (0.1, 0.25)


def run_quickstart(
    out: Path, console: Console, model_name: str = "smollm2-135m-instruct", plan: Plan | None = None
) -> None:
    """Labels, trains, prunes and asks; writes a router, a picture and a page into ``out``."""
    check_folder(out)
    plan = plan or Plan()
    console.print(f"1. Load {model_name}", highlight=False)
    model, tokenizer = load_model(model_name)
    run_on(model, tokenizer, out, console, plan)


def run_on(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, out: Path, console: Console, plan: Plan) -> None:
    """``run_quickstart`` on a model that is loaded already."""
    training = documents(tokenizer, plan, seeds.ROUTER_DOCUMENTS, plan.training_tokens, plan.training_documents)
    console.print("2. Hide blocks and watch the answer: what it rests on, beside what it attends to")
    labelled = [label(model, tokenizer, document) for document in training[: plan.labelled]]
    for found in labelled:
        console.print(labelled_table(found))
    console.print(f"3. Train two routers on {len(training)} documents: on evidence, and on attention")
    routers = train(model, training, plan)
    routers["causal"].router.save_pretrained(out / "router")
    console.print(f"4. Prune {plan.held_out} new documents, twice as long, before any question; then ask all of them")
    held_out = documents(tokenizer, plan, seeds.EVALUATION, plan.held_out_tokens, plan.held_out)
    kept = evaluate(model, tokenizer, held_out, routers, plan)
    console.print(kept_table(kept))
    report = Quickstart(ReadModel.of(model).name, plan.held_out_tokens, tuple(labelled), tuple(kept))
    write_text(out / "pruning.svg", quickstart_figure(report))
    write_text(out / "report.html", quickstart_page(report))
    console.print(f"Written: {out / 'report.html'}, {out / 'pruning.svg'}, {out / 'router'}. Use the router:\n")
    console.print(
        "  from keepset import Pruner, load_model\n"
        "  from keepset.policies.routed import Routed\n"
        f'  model, tokenizer = load_model("{report.model}")\n'
        f'  pruned = Pruner(model, tokenizer, Routed.from_pretrained("{(out / "router").as_posix()}"), blocks=32)'
        ".prune(text, budget=0.25)\n"
        '  pruned.ask("What is the special magic number for ...?")',
        highlight=False,
        markup=False,
        soft_wrap=True,
    )


def check_folder(out: Path) -> None:
    """Never writes over somebody's work."""
    own = {"router", "pruning.svg", "report.html"}
    if out.exists() and (not out.is_dir() or {path.name for path in out.iterdir()} - own):
        raise ValueError(f"{out}: expected an empty folder or an earlier quickstart, got something else; pass --out")


def documents(
    tokenizer: PreTrainedTokenizerBase, plan: Plan, seed_range: seeds.SeedRange, tokens: int, n: int
) -> list[Document]:
    return sample_documents(plan.task, tokenizer, seed_range.seed(QUICKSTART_RUN), tokens, n)


KNOWN = "all facts, known"
"""The ceiling: what was planted, in document order."""
QUICKSTART_RUN = 7
"""Of the seed ranges: away from the experiments' documents."""


def label(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, document: Document) -> LabelledDocument:
    """The evidence of the document's question, found by hiding alone."""
    question = document.questions[document.asked]
    effects = Effects([question], Fast(model), TeacherForced(), mode="grouped")
    evidence = evidence_sets(effects)[0]
    attention = answer_attention(model, question.tokens[None], question.blocks)
    shares = pool_attention(attention, heads="mean")[0]
    rows = tuple(
        BlockRow(
            number=i,
            text=question.block_texts[i],
            attention=float(shares[i]),
            drop=float(effects.drop[0, i]),
            evidence=bool(evidence[i]),
            planted=i in question.evidence,
        )
        for i in range(len(question.blocks))
    )
    return LabelledDocument(question.question, " ".join(question.answers), bool(effects.clean_correct[0]), rows)


def train(model: PreTrainedModel, training: list[Document], plan: Plan) -> dict[str, Routed]:
    """The two arms, which differ in what they learn from the same documents."""
    watched = track(training, "reading", transient=True, disable=not Console().is_terminal)
    features, targets = router_examples(model, watched, ["pre_query"])["pre_query"]
    trained = train_block_routers(
        ReadModel.of(model), "pre_query", early_layers(model), features, targets, steps=plan.steps
    )
    return {target: Routed(routers[0]) for target, routers in trained.items()}


def evaluate(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    held_out: Iterable[Document],
    routers: dict[str, Routed],
    plan: Plan,
) -> list[KeptRow]:
    """Every policy at every budget: the share of answers that survive, of those the model gives from the whole."""
    policies: dict[str, Policy] = {
        "causal router": routers["causal"],
        "imitation router": routers["imitation"],
        "H2O": H2O(),
        "SnapKV, last rows": SnapKV(),
        "KVzip": KVzip(tokenizer),
        "recency": Recency(),
        "random": Random(),
    }
    tallies = {(name, budget): Tally() for name in (*policies, KNOWN) for budget in plan.budgets}
    for document in track(list(held_out), "pruning", transient=True, disable=not Console().is_terminal):
        context = Context(model, document.tokens, document.blocks)
        with shared_layers():
            reader = Reader(model, tokenizer, document)
            scores = {name: score_checked(policy, context) for name, policy in policies.items()}
        scores[KNOWN] = Oracle(document.evidence).score(context)
        lengths = [len(span) for span in document.blocks]
        keeps = {
            (name, budget): select(scores[name], lengths, Budget.share_of_blocks(budget), frozenset())
            for name, budget in tallies
        }
        for i, question in enumerate(document.questions):
            if reader.answers(i, reader.everything, "global"):
                reader.read(i, keeps.values(), "global")
                for key, tally in tallies.items():
                    tally.add(reader.answers(i, keeps[key], "global"), question.evidence <= keeps[key])
    rows = []
    for (name, budget), tally in tallies.items():
        found = {metric.name.split("/")[1]: metric for metric in tally.metrics("x")}
        if not found:
            raise ValueError(
                "quickstart: expected the model to answer some questions from the whole document, got none"
            )
        rows.append(KeptRow(name, budget, found["preserved"], found["evidence_kept"], ceiling=name == KNOWN))
    return rows


def labelled_table(found: LabelledDocument) -> Table:
    """The blocks that matter and the blocks that are looked at; the others are left out."""
    given = "right" if found.answered else "wrong"
    table = Table(title=f"{found.question} {found.answer} (the model is {given})", title_justify="left")
    for column, justify in (("block", "right"), ("text", "left"), ("attention", "right"), ("if hidden", "right")):
        table.add_column(column, justify=justify)  # type: ignore[arg-type]
    table.add_column("evidence")
    for row in found.shown():
        table.add_row(
            str(row.number),
            row.short(60),
            f"{row.attention:.1%}",
            f"{-row.drop:+.1f} nats",
            "●" if row.evidence else "",
            style="bold green" if row.evidence else None,
        )
    return table


def kept_table(rows: list[KeptRow]) -> Table:
    n = rows[0].preserved.n
    table = Table(title=f"answers that survive, of {n} (95 % interval); facts kept", title_justify="left")
    table.add_column("policy", no_wrap=True)
    for budget in sorted({row.budget for row in rows}):
        table.add_column(f"{budget:.0%} of blocks", justify="right", no_wrap=True)
        table.add_column("facts", justify="right")
    for name in dict.fromkeys(row.policy for row in rows):
        cells = []
        for row in rows:
            if row.policy == name:
                low, high = row.preserved.low or 0.0, row.preserved.high or 0.0
                cells += [f"{row.preserved.value:.2f} ({low:.2f}–{high:.2f})", f"{row.evidence_kept.value:.2f}"]
        table.add_row(name, *cells)
    return table
