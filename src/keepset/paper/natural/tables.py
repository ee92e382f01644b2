"""What is kept of natural text, as tables."""

from collections.abc import Sequence

from keepset.paper.natural.corpus import ALL_SQUAD, QASPER, SENTENCES, SQUAD
from keepset.paper.natural.measure import BUDGETS, NUMBERS
from keepset.paper.natural.run import (
    BM25,
    H2O,
    LEXICAL,
    LIKELIHOOD,
    MINILM,
    ORACLE,
    RANDOM,
    RECENCY,
    ROUTER,
    SCORERS,
    SHORT,
    SNAPKV,
    STEMS,
    WORDS,
)
from keepset.paper.natural.transfer import KEPT, MARKED, NOBODY
from keepset.paper.result import Coordinate, Metric
from keepset.paper.results import Results
from keepset.paper.table import Table, with_interval

TITLES = {
    ROUTER: "the router that ships",
    LEXICAL: "the router without its reader",
    WORDS: "words, logistic regression",
    BM25: "BM25",
    STEMS: "BM25 of first letters",
    LIKELIHOOD: "question likelihood",
    SHORT: "the shortest first",
    RANDOM: "random",
    RECENCY: "the last first",
    H2O: "H2O",
    SNAPKV: "SnapKV",
    MINILM: "sentence embeddings, all-MiniLM-L6-v2",
    ORACLE: "what is marked first",
}
SOURCES = {NOBODY: "nothing: BM25 of first letters", MARKED: "what annotators marked"}
REGIMES = {"pre_query": "not known", "query_aware": "known"}


def measured(results: Results, what: str, name: str, values: Sequence[Coordinate], **at: Coordinate) -> list[Metric]:
    """One number for each of ``values`` of the coordinate ``name``; none where it has not been measured."""
    if results.select(what, **at).empty:
        return []
    return [results.metric(what, **{**at, name: value}) for value in values]


def qasper_table(results: Results) -> Table:
    """Recall of evidence by budget, regime and scorer."""
    rows: list[tuple[str, ...]] = []
    for documents, unit in ((QASPER, "paragraphs"), (SENTENCES, "sentences")):
        for regime, known in REGIMES.items():
            group = []
            for scorer in SCORERS[documents]:
                found = measured(
                    results, "recall", "budget", BUDGETS, documents=documents, scorer=scorer, regime=regime
                )
                if found:
                    group.append((unit, known, TITLES[scorer], *map(with_interval, found), f"{found[0].n:,}"))
            rows += [(), *group] if rows and group else group
    return Table(
        name="natural-qasper",
        caption=(
            "QASPER, held-out papers: share of the evidence that is kept with 10, 25 and 50 % of the words, and a 95 % "
            "bootstrap interval over papers."
        ),
        columns=("Blocks", "Question", "Scorer", "10 %", "25 %", "50 %", "n"),
        rows=tuple(rows),
        notes=(
            f"{papers_note(results)} Question not known: evidence of every question of a paper, n of its blocks; "
            "known: of one question, n over all questions that are extractive or yes/no with all evidence in the text.",
            "Sentences: those of an evidence paragraph that hold the answer, all of them where none does; a paragraph "
            "and its sentences are different things to find, so the two halves do not compare.",
            *minilm_note(results, QASPER),
            *likelihood_note(results),
        ),
    )


def transfer_table(results: Results) -> Table:
    """Whose evidence a router learned, against whose evidence it keeps."""
    run = results.run(kind="transfer")
    models = [str(name) for name in results.coordinates("of", "rests_on_marked")]
    learned = {str(metric.at["source"]): metric.n for metric in run.metrics if metric.what == "lessons"}
    rows = []
    for source in (NOBODY, *learned):
        kept = [results.metric("among_best", kind="transfer", source=source, number=KEPT)]
        kept += [results.metric("evidence_kept", kind="transfer", source=source, of=model) for model in models]
        taught = str(learned.get(source, "–"))
        rows.append((SOURCES.get(source, f"what {source} rests on"), taught, *map(with_interval, kept)))
    resting = ", ".join(
        f"{model} {results.value('rests', kind='transfer', of=model):.2f}"
        + f" ({results.value('rests_on_marked', kind='transfer', of=model):.2f} of them on the marked sentence)"
        for model in models
    )
    return Table(
        name="natural-transfer",
        caption=(
            f"SQuAD dev, question known, two of sixteen sentences: routers that read with {run.config['reader']} and "
            "learned from the same questions what annotators marked, or what the marked answer rests on for a model, "
            "found by hiding; and whose evidence each keeps. 95 % bootstrap interval over articles."
        ),
        columns=(
            "Learned from",
            "Questions learned from",
            "Marked sentence kept",
            *(f"Kept of what {model} rests on" for model in models),
        ),
        rows=tuple(rows),
        notes=(
            f"Marked: n = {results.metric('among_best', kind='transfer', source=NOBODY, number=KEPT).n:,} questions of "
            f"{run.counts['articles']} articles; of models: {run.counts['questions']} questions of these, where the "
            f"answer rests on something: {resting or 'nowhere'}. Learned from at most "
            f"{run.counts['training_questions']} questions of {run.counts['training_articles']} other articles; one "
            "start of every router.",
        ),
    )


def minilm_note(results: Results, documents: str) -> tuple[str, ...]:
    if all(results.select(what, documents=documents, scorer=MINILM).empty for what in ("recall", "among_best")):
        return ()
    return (
        "Sentence embeddings: cosine of question and block, at most 256 tokens of each, as sentence-transformers has "
        "it; the questions of SQuAD train, not dev, are among what the model was trained on.",
    )


def likelihood_note(results: Results) -> tuple[str, ...]:
    if results.select("recall", documents=QASPER, scorer=LIKELIHOOD).empty:
        return ()
    return ("Question likelihood reads every block again for every question and was run on fewer.",)


def squad_table(results: Results) -> Table:
    """The gold sentence among the best of sixteen."""
    rows: list[tuple[str, ...]] = []
    for documents in (SQUAD, ALL_SQUAD):
        group = []
        for scorer in SCORERS[documents]:
            found = measured(results, "among_best", "number", NUMBERS, documents=documents, scorer=scorer)
            if found:
                group.append((TITLES[scorer], *map(with_interval, found), f"{found[0].n:,}"))
        rows += [(), *group] if rows and group else group
    articles = results.run(documents=SQUAD, scorer=ROUTER).counts["documents"]
    return Table(
        name="natural-squad",
        caption=(
            "SQuAD dev, question known: is the sentence that holds the answer among the best one, two or four of "
            "sixteen consecutive ones? 95 % bootstrap interval over articles."
        ),
        columns=("Scorer", "One", "Two", "Four", "Questions"),
        rows=tuple(rows),
        notes=(
            f"{articles} articles have been read; the rows below them need no reader and are of all articles.",
            "The sixteen are the paragraph of the question and the sentences after it; questions whose answer "
            "stands in another of the sixteen are left out.",
            *minilm_note(results, SQUAD),
        ),
    )


def cost_table(results: Results) -> Table:
    """CPU seconds."""
    run = results.run(kind="cost")
    tokens = run.counts["tokens"]
    rows = []
    for metric in run.metrics:
        rows.append((str(metric.at["doing"]), f"{metric.value:.1f}", f"{1_000 * metric.value / tokens:.2f}"))
    return Table(
        name="natural-cost",
        caption=f"CPU seconds for a text of {run.counts['words']:,} words ({tokens:,} tokens), one thread.",
        columns=("Doing", "Seconds", "Seconds per 1K tokens"),
        rows=tuple(rows),
        notes=(
            f"{run.config['reader']}, {run.config['dtype']}; the quickest of {run.config['runs']} runs, models loaded. "
            "Prefill: the same model reads the text once; an engine's model is larger, and its prefill dearer.",
        ),
    )


def papers_note(results: Results) -> str:
    run = results.run(documents=QASPER, scorer=ROUTER)
    return (
        f"{run.counts['documents']} held-out papers, {run.counts['questions']} questions; the router read "
        f"{run.config['training_papers']} others."
    )
