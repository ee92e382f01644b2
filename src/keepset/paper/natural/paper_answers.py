"""Answers about papers that survive: a model is given the kept paragraphs of a QASPER paper and a question.

    dense       the whole paper, the question                       -> a reply that holds the answer, or is left out
    kept        the scorer's paragraphs, as text, in their order    -> does the reply still hold it?

Mode ``text``, greedy. Held-out papers, the shorter first, and of them questions by the paper's rule. An extractive
answer is held where every stretch that was marked stands in the reply; a yes or no where it is the only one of the two.
"""

import re
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from keepset import seeds
from keepset.blocks import KeepSet
from keepset.paper.experiment import run_result
from keepset.paper.natural.answers import Answering
from keepset.paper.natural.documents import AskedOf, Read
from keepset.paper.natural.measure import Scorer, clustered_share, kept_blocks
from keepset.paper.result import Metric, RunResult
from keepset.policies import H2O, Context, Policy, SnapKV
from keepset.text.prompt import lay_out
from keepset.text.qasper import PaperQuestion, QasperPaper

NEW_TOKENS = 40
"""Of a reply: stretches of papers are long."""
YES_NO = re.compile(r"\b(yes|no)\b")
Counts = dict[tuple[str, str, float], int]
"""Regime, scorer and budget -> answers that survive."""


def run_paper_answers(
    experiment: str,
    scale: str,
    reader: tuple[str, PreTrainedModel, PreTrainedTokenizerBase],
    papers: Iterable[tuple[QasperPaper, Read]],
    scorers: Mapping[str, Mapping[str, Scorer]],
    budgets: Sequence[float],
    questions: int,
) -> RunResult:
    """``scorers``: regime -> name -> scorer. Stops after ``questions``; papers are drawn again for the interval."""
    started = time.monotonic()
    name, model, tokenizer = reader
    answering = Answering(model, tokenizer, NEW_TOKENS)
    dense: list[tuple[int, int]] = []
    yes_no, preserved = 0, defaultdict[tuple[str, str, float], list[tuple[int, int]]](list)
    for paper, document in papers:
        pairs = _asked(paper, document)[: questions - sum(n for _, n in dense)]
        answered = [(asked, own) for asked, own in pairs if holds(answering.reply(paper.text, own.question), own)]
        dense.append((len(answered), len(pairs)))
        yes_no += sum(not own.extractive for _, own in answered)
        for key, found in survivors(answering, paper, document, answered, scorers, budgets).items():
            preserved[key].append((found, len(answered)))
        if sum(n for _, n in dense) >= questions:
            break
    metrics: list[Metric] = [clustered_share("dense", dense)]
    if metrics[0].value:
        metrics += [
            clustered_share("preserved", pairs, regime=regime, scorer=scorer, budget=budget)
            for (regime, scorer, budget), pairs in preserved.items()
        ]
    return run_result(
        experiment,
        scale,
        started,
        at={"kind": "paper answers", "model": name},
        config={"model": name, "mode": "text", "new_tokens": NEW_TOKENS},
        seeds={"statistics": seeds.STATISTICS.seed(0)},
        counts={
            "documents": len(dense),
            "answering_documents": sum(hits > 0 for hits, _ in dense),
            "questions": sum(n for _, n in dense),
            "yes_no": yes_no,
        },
        metrics=metrics,
        command=f"keepset bench {experiment} --data FOLDER --only paper-answers/{name}",
    )


def survivors(
    answering: Answering,
    paper: QasperPaper,
    document: Read,
    answered: Sequence[tuple[AskedOf, PaperQuestion]],
    scorers: Mapping[str, Mapping[str, Scorer]],
    budgets: Sequence[float],
) -> Counts:
    """One paper. What several ways keep alike is read once, and read once for all its questions."""
    found: Counts = {(r, s, b): 0 for r, named in scorers.items() for s in named for b in budgets} if answered else {}
    held: dict[tuple[KeepSet, str], bool] = {}
    for key, keep, own in _kept(document, answered, scorers, budgets):
        if (keep, own.question) not in held:
            held[keep, own.question] = holds(answering.reply(kept_paragraphs(paper, keep), own.question), own)
        found[key] += held[keep, own.question]
    return found


def _kept(
    document: Read,
    answered: Sequence[tuple[AskedOf, PaperQuestion]],
    scorers: Mapping[str, Mapping[str, Scorer]],
    budgets: Sequence[float],
) -> Iterator[tuple[tuple[str, str, float], KeepSet, PaperQuestion]]:
    for regime, named in scorers.items():
        for scorer, score in named.items():
            known = [score(document, None)] * len(answered) if regime == "pre_query" and answered else []
            scores = known or [score(document, asked) for asked, _ in answered]
            for budget in budgets:
                for each, (_, own) in zip(scores, answered, strict=True):
                    yield (regime, scorer, budget), kept_blocks(each, document.words, budget), own


def _asked(paper: QasperPaper, document: Read) -> list[tuple[AskedOf, PaperQuestion]]:
    """The questions of ``document``, which are those of the paper that fit, in their order."""
    fitting = [own for own in paper.questions if own.fits]
    return list(zip(document.asked, fitting, strict=True))


def kept_paragraphs(paper: QasperPaper, keep: KeepSet) -> str:
    return "\n\n".join(paper.text[start:stop] for i, (start, stop) in enumerate(paper.paragraphs) if i in keep)


def holds(reply: str, asked: PaperQuestion) -> bool:
    """Whether ``reply`` gives the answer of ``asked``."""
    said = " ".join(reply.lower().split())
    if asked.extractive:
        return all(answer.lower() in said for answer in asked.answers)
    return set(YES_NO.findall(said)) == set(asked.answers)


def policy_scores(policy: Policy, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> Scorer:
    """A policy that reads the whole paper with the model that answers, paragraph by paragraph."""

    def score(document: Read, asked: AskedOf | None) -> Tensor:
        text = "\n\n".join(passage.text.strip() for passage in document.passages)
        prompt = lay_out(tokenizer, text, "paragraph", None if asked is None else asked.question)
        return policy.score(Context(model, prompt.tokens, prompt.blocks, None if asked is None else prompt.question))

    return score


def attention_scorers(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> dict[str, dict[str, Scorer]]:
    """What the paper sets beside its router: H2O before the question, SnapKV after it."""
    return {
        "pre_query": {"h2o": policy_scores(H2O(), model, tokenizer)},
        "query_aware": {"snapkv": policy_scores(SnapKV(), model, tokenizer)},
    }
