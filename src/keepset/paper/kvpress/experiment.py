"""kvpress's KVzip on the fact sheets: the same documents, questions, answers and tokens as keepset's policies.

``make kvpress-compare`` builds the environment (kvpress pins another transformers) and runs this; the table is
``fact_sheets``'.
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
from keepset.paper.experiment import Experiment, Jobs, run_result
from keepset.paper.fact_sheets.run import DOCUMENTS, GIVEN, MODEL, NEVER, PART, fresh_sheets, marked
from keepset.paper.kvpress import peer
from keepset.paper.result import At, Metric, RunResult
from keepset.quickstart import QUICKSTART_RUN, FactSheet, QuickstartSize
from keepset.text.example import answer_tokens
from keepset.text.prompt import document_tokens, encode, prompt_text

NAME = "kvpress"
RATIOS = (0.1, 0.25)
"""Shares of the keys; a press scores anew for each."""
PYTHON = "KVPRESS_PYTHON"
"""Where the environment's interpreter is."""


def jobs(scale: str) -> Jobs:
    """One result per five documents, where kvpress is."""
    if scale != "small":
        return {}
    return {f"{NAME}/{MODEL}-{part}": partial(run, scale, part) for part in range(DOCUMENTS // PART)}


def run(scale: str, part: int) -> RunResult:
    """Hands the documents to kvpress and keeps what it says."""
    started = time.monotonic()
    python = os.environ.get(PYTHON)
    if python is None:
        raise ValueError(f"{PYTHON}: expected a Python that has kvpress, got none; run 'make kvpress-compare'")
    folder = fetched(MODEL) or fetch(MODEL)
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    sheets = fresh_sheets(tokenizer, part)
    sheet = {
        "model": str(folder),
        "ratios": list(RATIOS),
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
        at={"model": MODEL, "part": part, "policy": "kvzip", "router_seed": 0},
        config={"tokens": QuickstartSize().held_out_tokens, "budgets": list(RATIOS), "peer": outcomes["versions"]},
        seeds={"evaluation": seeds.EVALUATION.seed(QUICKSTART_RUN)},
        counts={"documents": len(sheets), "answers": sum(map(sum, outcomes["dense"]))},
        metrics=metrics(outcomes),
        command="keepset bench kvpress",
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
    """Which of the answers given from everything survive, and what reading and compressing cost in dense prefills."""
    dense, seconds = outcomes["dense"], outcomes["seconds"]
    found = []
    for ratio, kept in outcomes["kept"].items():
        marks = "".join(
            marked(now, before)
            for after, whole in zip(kept, dense, strict=True)
            for now, before in zip(after, whole, strict=True)
        )
        at: At = {"budget": float(ratio)}
        given = len(marks) - marks.count(NEVER)
        share = marks.count(GIVEN) / max(given, 1)
        found.append(Metric(what="preserved", at=at, value=share, n=given, each=marks))
        cost = seconds[ratio] / seconds["dense"]
        found.append(Metric(what="prefills", at=at, value=cost, n=len(kept)))
    return found


EXPERIMENT = Experiment(NAME, place=81, jobs=jobs, bench=True)
