"""The model's own replies explained: from end to end with what it costs, and by whether the reply is right."""

from collections.abc import Iterable

from keepset.paper.evidence.measure import told
from keepset.paper.evidence.replies import BAR, PARAGRAPH_REPLIES, REPLIES, SENTENCES
from keepset.paper.evidence.tables import SECONDS, SIZE, Cells, Pool, mean, models, share
from keepset.paper.result import Metric
from keepset.paper.results import Results
from keepset.paper.table import Table, with_interval

RIGHT, WRONG = "1", "0"
REPLY_KINDS = {RIGHT: "has the answer", WRONG: "has not"}
"""Whether an annotator's answer is in a reply, as results write it -> how the reply is called."""
GUESSES, HINTS = "guess shown, right", ("hinted", "hinted_rightly")
OF_RIGHT = "sentence_exactly"
"""Says nothing of replies that have no sentence with the answer."""


def hints(pool: Pool) -> str:
    """How often the report shows what the question seems to be about, and how often that is the gold sentence."""
    read = set(pool.results.select("hinted", **pool.at)["part"])
    if not read.issuperset(pool.parts):
        return ""
    return counts(pool.share(what) for what in HINTS)


def counts(shares: Iterable[Metric]) -> str:
    return ", ".join(f"{share.value * share.n:.0f}" for share in shares)


def replies_table(results: Results) -> Table:
    """``keepset explain`` from end to end, and what it costs."""
    cells: Cells = {
        "n": lambda pool: str(pool.share("right").n),
        "reply has the answer": share("right"),
        "gold among the evidence": share("named"),
        "question points at gold": share("pointed"),
        "one of the two": share("either"),
        GUESSES: hints,
        **SIZE,
        **SECONDS,
        f"under {BAR:.0f} s": share("quick"),
        "tokens": mean("tokens", ",.0f"),
    }
    pools = {model: pool for model in models(results) if (pool := Pool(results, model, REPLIES))}
    return Table(
        name="evidence-replies",
        caption=(
            f"`keepset explain` as a reader runs it: {SENTENCES} consecutive sentences of a SQuAD dev article, one "
            "question an article, the model's own reply, right or wrong. Sentences: those named as evidence. Seconds "
            "are CPU seconds of one thread, the reply and everything else included. 95 % intervals in brackets."
        ),
        columns=("Model", *cells),
        rows=tuple((model, *(cell(pool) for cell in cells.values())) for model, pool in pools.items()),
        notes=(
            "A reply without the answer may rest on another sentence, and then naming that one is right: the gold "
            "sentence among the evidence is a lower bound. The answer is looked for as an annotator wrote it.",
        ),
    )


def reply_kinds_table(results: Results) -> Table:
    """Is it the reply that is wrong, where the gold sentence is not named?"""
    columns = {
        OF_RIGHT: "the reply's sentence with the answer: exactly gold",
        "exactly": "the whole reply: exactly gold",
        "named": "gold among the named",
        "pointed": "question points at gold",
        "either": "one of the two",
    }
    pools = {model: pool for model in models(results) if (pool := Pool(results, model, PARAGRAPH_REPLIES))}
    rows = []
    for model, pool in pools.items():
        for right in sorted(set(pool.share("right").each or ""), reverse=True):
            cells = {what: with_interval(among(pool, what, right)) for what in columns}
            if right == WRONG:
                cells[OF_RIGHT] = ""
            guesses = counts(among(pool, what, right) for what in HINTS)
            rows.append((model, REPLY_KINDS[right], str(among(pool, "right", right).n), *cells.values(), guesses))
    return Table(
        name="evidence-reply-kinds",
        caption=(
            "The paragraphs and questions of evidence-squad with the model's own reply instead of the gold answer, by "
            "whether an annotator's answer stands in it. 95 % intervals in brackets."
        ),
        columns=("Model", "reply", "n", *columns.values(), GUESSES),
        rows=tuple(rows),
        notes=(
            "A wrong reply that rests on another sentence is explained rightly when that one is named: the second row "
            "says how often a reader is led to the gold sentence all the same, not how often the explanation is right.",
            "A reply mostly has several sentences, and each is explained: those after the answer, often made up, have "
            "evidence of their own.",
        ),
    )


def among(pool: Pool, what: str, right: str) -> Metric:
    """A share of the replies that are right, or of those that are wrong."""
    outcomes = zip(pool.share(what).each or "", pool.share("right").each or "", strict=True)
    return told(what, [outcome == "1" for outcome, kind in outcomes if kind == right])
