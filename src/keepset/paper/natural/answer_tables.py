"""What is still answered from what is kept, as tables; for papers the numbers of the paper beside them."""

from keepset.paper.natural.run import H2O, ORACLE, RANDOM, RECENCY, ROUTER, SHORT, SNAPKV, STEMS, WORDS
from keepset.paper.natural.tables import REGIMES, TITLES
from keepset.paper.result import RunResult
from keepset.paper.results import Results
from keepset.paper.table import Table, with_interval

SHOWN = {
    "pre_query": (ORACLE, ROUTER, WORDS, H2O, RECENCY, SHORT, RANDOM),
    "query_aware": (ORACLE, ROUTER, STEMS, SNAPKV),
}
PAPER = {
    ("pre_query", ORACLE): (0.71, 0.86, 0.88),
    ("pre_query", ROUTER): (0.38, 0.52, 0.74),
    ("pre_query", H2O): (0.27, 0.36, 0.57),
    ("pre_query", RECENCY): (0.28, 0.41, 0.65),
    ("pre_query", RANDOM): (0.27, 0.44, 0.59),
    ("query_aware", ORACLE): (0.88, 0.85, 0.87),
    ("query_aware", ROUTER): (0.47, 0.61, 0.81),
    ("query_aware", SNAPKV): (0.52, 0.77, 0.89),
}
"""At 10, 25 and 50 % of the tokens: Qwen2.5-7B-Instruct, 250 questions, routers on its own evidence."""
BUDGETS = (0.1, 0.25, 0.5)


def answers_table(results: Results) -> Table:
    """What is still answered from two sentences of sixteen."""
    run = results.run(kind="answers")
    dense = results.metric("dense", kind="answers")
    found = [metric for metric in run.metrics if metric.what == "preserved"]
    return Table(
        name="natural-answers",
        caption=(
            f"SQuAD dev, question known: what {run.config['model']} still answers from {run.config['kept']} of sixteen "
            "sentences. 95 % bootstrap interval over articles."
        ),
        columns=("Scorer", "Preserved", "Questions"),
        rows=tuple((TITLES[str(m.at["scorer"])], with_interval(m), f"{m.n:,}") for m in found),
        notes=(
            f"Mode text, greedy, at most {run.config['new_tokens']} tokens; a reply counts when it contains what an "
            f"annotator marked. Of {dense.n} questions of {run.counts['documents']} articles the model answers "
            f"{dense.value:.2f} from all sixteen sentences; these are the questions of the table.",
        ),
    )


def paper_answers_table(results: Results, model: str) -> Table:
    """Every way of keeping, with and without the question, the paper's number beside it."""
    run = results.run(kind="paper answers", model=model)
    rows: list[tuple[str, ...]] = []
    for regime, scorers in SHOWN.items():
        rows += [()] if rows else []
        for scorer in scorers:
            for metric in run.metrics:
                if (metric.at.get("regime"), metric.at.get("scorer")) == (regime, scorer):
                    budget = float(metric.at["budget"])
                    known = PAPER.get((regime, scorer))
                    paper = "" if known is None else f"{known[BUDGETS.index(budget)]:.2f}"
                    rows.append((REGIMES[regime], TITLES[scorer], f"{budget:.0%}", with_interval(metric), paper))
    return Table(
        name=f"natural-paper-answers-{model}",
        caption=(
            f"QASPER: what {model} still answers from what is kept of a paper's words. 95 % bootstrap interval over "
            "papers."
        ),
        columns=("Question", "Paragraphs kept", "Words", "Preserved", "The paper"),
        rows=tuple(rows),
        notes=(counted(run),),
    )


def counted(run: RunResult) -> str:
    (dense,) = (metric for metric in run.metrics if metric.what == "dense")
    answered = round(dense.value * dense.n)
    return (
        f"Mode text, greedy, at most {run.config['new_tokens']} tokens. Of {dense.n} questions about "
        f"{run.counts['documents']} held-out papers, the shorter first, the model answers {answered} from the whole "
        f"paper, {run.counts['yes_no']} of them yes or no, about {run.counts['answering_documents']} papers; these are "
        "the questions of the table. The paper's column: Qwen2.5-7B-Instruct, 250 questions, tokens instead of words, "
        "blocks hidden instead of text left out, a router of its own evidence."
    )
