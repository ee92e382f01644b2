"""kvpress's KVzip beside the quickstart's policies: the same documents, questions, answers and tokens.

``make kvpress-compare`` builds the environment (kvpress pins another transformers) and runs this.
"""

import json
import os
import subprocess
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer, PreTrainedTokenizerBase

from keepset import seeds
from keepset.models.bundled import fetch, fetched
from keepset.paper.experiment import Experiment, Jobs, Report, run_result
from keepset.paper.kvpress import peer
from keepset.paper.quickstart import cost
from keepset.paper.result import Metric, RunResult
from keepset.paper.results import Results
from keepset.paper.statistics import clustered_share
from keepset.paper.table import Table, with_interval
from keepset.quickstart import QUICKSTART_RUN, FactSheet, QuickstartSize, sample_sheets
from keepset.text.example import answer_tokens
from keepset.text.prompt import document_tokens, encode, prompt_text

NAME = "kvpress"
MODEL = "smollm2-135m-instruct"
PYTHON = "KVPRESS_PYTHON"
"""Where the environment's interpreter is."""


def jobs(scale: str) -> Jobs:
    """One run, where kvpress is."""
    return {f"{NAME}/{MODEL}": partial(run, scale)} if scale == "small" else {}


def run(scale: str) -> RunResult:
    """Hands the documents to kvpress and keeps what it says."""
    started = time.monotonic()
    python = os.environ.get(PYTHON)
    if python is None:
        raise ValueError(f"{PYTHON}: expected a Python that has kvpress, got none; run 'make kvpress-compare'")
    folder, size = fetched(MODEL) or fetch(MODEL), QuickstartSize()
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    sheets = sample_sheets(tokenizer, seeds.EVALUATION, size.held_out_tokens, size.held_out)
    sheet = {
        "model": str(folder),
        "ratios": list(size.budgets),
        "documents": [question_sheet(tokenizer, facts) for facts in sheets],
    }
    with tempfile.TemporaryDirectory() as temporary:
        source, target = Path(temporary) / "sheet.json", Path(temporary) / "outcomes.json"
        source.write_text(json.dumps(sheet), encoding="utf-8")
        subprocess.run([python, str(Path(peer.__file__)), str(source), str(target)], check=True)
        outcomes = json.loads(target.read_text(encoding="utf-8"))
    return run_result(
        NAME,
        scale,
        started,
        at={"model": MODEL},
        config={"tokens": size.held_out_tokens, "budgets": list(size.budgets), "peer": outcomes["versions"]},
        seeds={"evaluation": seeds.EVALUATION.seed(QUICKSTART_RUN)},
        counts={"documents": len(sheets), "answers": sum(map(sum, outcomes["dense"]))},
        metrics=metrics(outcomes),
        command="make kvpress-compare; keepset bench kvpress",
    )


def question_sheet(tokenizer: PreTrainedTokenizerBase, facts: FactSheet) -> dict[str, Any]:
    """A document as ``peer`` reads it: the tokens of the Pruner's own prompt, cut where it cuts them."""
    document = document_tokens(tokenizer, facts.text)
    questions = []
    for fact in facts.facts:
        prompt, _ = prompt_text(tokenizer, facts.text, fact.question)
        tokens = encode(tokenizer, prompt)[0]
        if tokens[: len(document)] != document:
            raise ValueError(f"tokenizer: expected the document to stay as it is before {fact.question!r}")
        answer = answer_tokens(tokenizer, prompt, tokens, fact.answer)
        questions.append({"tokens": tokens[len(document) :], "answer": list(answer)})
    return {"tokens": document, "questions": questions}


def metrics(outcomes: dict[str, Any]) -> list[Metric]:
    """Shares of the answers given from everything, and what reading cost in dense prefills."""
    dense, seconds = outcomes["dense"], outcomes["seconds"]
    found = []
    for ratio, kept in outcomes["kept"].items():
        still = [
            sum(now and before for now, before in zip(after, whole, strict=True))
            for after, whole in zip(kept, dense, strict=True)
        ]
        found.append(clustered_share("preserved", still, list(map(sum, dense)), policy="kvzip", budget=float(ratio)))
        cost = seconds[ratio] / seconds["dense"]
        found.append(Metric(what="prefills", at={"policy": "kvzip", "budget": float(ratio)}, value=cost, n=len(kept)))
    return found


def kvpress_table(results: Results) -> Table:
    """Budgets across, beside the quickstart's own policies."""
    own, theirs = results.of("quickstart"), results.of(NAME)
    run, budgets = theirs.run(), theirs.coordinates("budget")
    rows = [
        (
            "KVzip, per head and token (kvpress)",
            *(with_interval(theirs.metric("preserved", budget=budget)) for budget in budgets),
            *(f"{theirs.value('prefills', budget=budget):.1f}" for budget in budgets),
        ),
        *(
            (
                f"{policy} (keepset, lines)",
                *(with_interval(own.metric("preserved", policy=policy, budget=budget)) for budget in budgets),
                *(cost(own, policy, budget) for budget in budgets),
            )
            for policy in own.coordinates("policy")
        ),
    ]
    peers = ", ".join(f"{name} {number}" for name, number in run.config["peer"].items())
    return Table(
        name="kvpress",
        caption=(
            "kvpress's own KVzip on the tokens of the quickstart's documents, beside keepset's policies: share of the "
            "answers that survive, of those the model gives from the whole document; and what reading and compressing "
            "a document cost, in dense prefills."
        ),
        columns=("Policy", *(f"{b:.0%} kept" for b in budgets), *(f"prefills, {b:.0%}" for b in budgets)),
        rows=tuple(rows),
        notes=(
            f"{run.counts['answers']} answers about {run.counts['documents']} documents in kvpress's environment "
            f"({peers}). Square brackets: 95 % interval, clustered by document. kvpress keeps a share of all keys "
            "after a dense prefill, which is in its prefills; keepset a share of the lines, mode global, whose prefill "
            "shrinks with the budget: its prefills are what choosing took.",
        ),
    )


EXPERIMENT = Experiment(
    NAME,
    place=81,
    jobs=jobs,
    reports=(
        Report(
            "kvpress's KVzip beside the quickstart's policies", "eviction", kvpress_table, ("quickstart",), beyond=True
        ),
    ),
    bench=True,
)
