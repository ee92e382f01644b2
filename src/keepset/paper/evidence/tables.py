"""Tools side by side: SQuAD, two-sentence answers, documents of our own; and what a text is about."""

from collections.abc import Callable, Collection, Sequence

from keepset.labels.about import about_threshold
from keepset.paper.evidence.about import DEV, KINDS, OTHER, OURS, OWN, SAME, UNANSWERED, auc, shares
from keepset.paper.evidence.found import FOUND, GIVEN, OWN_REPLY
from keepset.paper.evidence.measure import pooled_mean, pooled_shares, told
from keepset.paper.evidence.replies import SENTENCES
from keepset.paper.evidence.run import ARTICLES, DOCUMENTS, SQUAD, TWO_HOP
from keepset.paper.evidence.tools import AS_INSTALLED, FLOOR, HALF, OF_LARGEST, TOOLS
from keepset.paper.result import Coordinate, Metric
from keepset.paper.results import Results
from keepset.paper.table import Table, with_interval

KEEPSET = "keepset evidence"
"""The effort that ``keepset explain`` starts with."""
LABELS = {
    "question": "what the question points at (keepset)",
    "bm25": "BM25 of the question",
    "attention": "answer-row attention",
    "saliency": "gradient saliency",
    "arc-jsd": "ARC-JSD",
    "contextcite-32": "ContextCite, 32 ablations",
    "contextcite-64": "ContextCite, 64 ablations",
    AS_INSTALLED: "ContextCite, 64 ablations, as installed",
    "captum": "Captum FeatureAblation",
}
SHOWN = (
    *(tool for tool in TOOLS if tool.startswith("keepset")),
    *(tool for tool in TOOLS if not tool.startswith("keepset")),
)
COMPARED = tuple(tool for tool in SHOWN if tool != AS_INSTALLED)
"""Without a second row of the same scores."""
RULE = (
    f"Sets: keepset's own rule; leave-one-out: drops over {FLOOR} nats and over {OF_LARGEST} of the largest; every "
    f"other tool: scores of at least {HALF} of the best, one rule for all, tuned on nothing."
)


class Pool:
    """Numbers of one model, tool and set of questions over all parts that were run."""

    def __init__(
        self,
        results: Results,
        model: str,
        questions: str,
        tool: str | None = None,
        only: Collection[int] | None = None,
    ) -> None:
        """``tool``: None where it is keepset as a whole; ``only``: of these parts."""
        self.results = results
        self.at: dict[str, Coordinate] = {"model": model, "questions": questions}
        if tool is not None:
            self.at["tool"] = tool
        found = (run.at for run in results.runs.values())
        parts = {int(at["part"]) for at in found if all(at.get(name) == value for name, value in self.at.items())}
        self.parts = sorted(parts if only is None else parts & set(only))

    def __bool__(self) -> bool:
        return bool(self.parts)

    def share(self, what: str, parts: Sequence[int] | None = None) -> Metric:
        return pooled_shares(what, self._each(what, parts))

    def mean(self, what: str, parts: Sequence[int] | None = None, **at: Coordinate) -> Metric:
        return pooled_mean(what, self._each(what, parts, **at))

    def parts_with(self, what: str) -> list[int]:
        """Parts in which it was measured: costs and the linear datamodelling score are not, everywhere."""
        read = set(self.results.select(what, **self.at)["part"])
        return [part for part in self.parts if part in read]

    def cost(self, what: str, among: Collection[int] | None = None) -> Metric:
        """Seconds or tokens, where every tool read for itself; ``among``: of these parts."""
        measured = self.parts_with(what)
        return self.mean(what, measured if among is None else [part for part in measured if part in among])

    def _each(self, what: str, parts: Sequence[int] | None, **at: Coordinate) -> list[Metric]:
        wanted = self.parts if parts is None else parts
        return [self.results.metric(what, part=part, **self.at, **at) for part in wanted]


def models(results: Results) -> list[str]:
    return list(dict.fromkeys(str(run.at["model"]) for run in results.runs.values()))


def label(tool: str) -> str:
    return LABELS.get(tool, tool)


Cells = dict[str, Callable[[Pool], str]]
"""Column -> what stands in it."""


def share(what: str) -> Callable[[Pool], str]:
    """A share with its interval."""
    return lambda pool: with_interval(pool.share(what))


def mean(what: str, how: str) -> Callable[[Pool], str]:
    return lambda pool: format(pool.mean(what).value, how)


def cost(what: str, how: str) -> Callable[[Pool], str]:
    """A mean over the questions on which costs were measured."""
    return lambda pool: format(pool.cost(what).value, how) if pool.parts_with(what) else ""


def drop(top: int) -> Callable[[Pool], str]:
    """Nats lost with the best ``top`` sentences."""
    return lambda pool: with_interval(pool.mean("drop", top=top))


def correlation(pool: Pool) -> str:
    """The linear datamodelling score, where random masks were read; of how many questions, where not of all."""
    parts = pool.parts_with("datamodelling")
    if not parts:
        return ""
    found = pool.mean("datamodelling", parts)
    return with_interval(found) + ("" if parts == pool.parts else f", n = {found.n}")


def asked(pool: Pool) -> str:
    return str(pool.share("exactly").n)


SIZE: Cells = {"sentences": mean("size", ".1f")}
SECONDS: Cells = {"CPU s": cost("seconds", ".2f")}


def tool_table(
    results: Results,
    name: str,
    caption: str,
    questions: str,
    cells: Cells,
    notes: Sequence[str] = (),
) -> Table:
    """One row per model and tool that was run, a rule between models."""
    rows: list[tuple[str, ...]] = []
    for model in models(results):
        pools = {tool: pool for tool in SHOWN if (pool := Pool(results, model, questions, tool))}
        found = [(model, label(tool), *(cell(pool) for cell in cells.values())) for tool, pool in pools.items() if pool]
        rows += [(), *found] if rows and found else found
    return Table(
        name=name,
        caption=f"{caption} 95 % intervals in brackets.",
        columns=("Model", "Tool", *cells),
        rows=tuple(rows),
        notes=(RULE, *notes),
    )


SQUAD_CELLS: Cells = {
    "n": asked,
    "gold first": share("first"),
    "exactly gold": share("exactly"),
    "precision": mean("precision", ".2f"),
    "recall": mean("recall", ".2f"),
    **SIZE,
    "drop, top 1": drop(1),
    "drop, top 3": drop(3),
    "LDS": correlation,
    **SECONDS,
    "tokens": cost("tokens", ",.0f"),
}


def squad_table(results: Results) -> Table:
    """Every tool on questions whose answer stands in one sentence, on all that each was asked."""
    return tool_table(
        results,
        "evidence-squad",
        "Which sentence of a paragraph the gold answer rests on: SQuAD dev, one question a paragraph of 5 to 14 "
        "sentences, all articles in turn, the answer in exactly one sentence. Gold first: the sentence with the answer "
        "alone has the highest score. Exactly: the named set is that sentence. Drop: nats of the gold answer's "
        "log-probability lost when the tool's best 1 and 3 sentences are hidden. LDS: rank correlation of summed "
        "scores with the log-probability under 8 random halves.",
        SQUAD,
        SQUAD_CELLS,
        notes=(
            "All tools attribute the log-probability of the gold answer, whatever the model would say. Drops and LDS "
            "are read with keepset's masking for all alike. Seconds are CPU seconds of one thread per question, tokens "
            "what went through the model forward (saliency also goes backward).",
            "ContextCite is its own package, without rows that it draws twice, common beginnings, the loss and logits "
            "that it does not read: no score changes, and it is far cheaper than as installed, the last row.",
            "Tools that cost more were asked fewer questions; evidence-squad-paired compares on the same ones.",
            *shared_notes(results),
        ),
    )


def shared_notes(results: Results) -> list[str]:
    """One line per model of which tools shared readings."""
    found = []
    for model in models(results):
        pools = [pool for tool in SHOWN if (pool := Pool(results, model, SQUAD, tool))]
        if any(pool.parts_with("seconds") != pool.parts for pool in pools):
            fewest = min(pool.cost("seconds").n for pool in pools if pool.parts_with("seconds"))
            found.append(
                f"{model}: on the first {fewest} questions every tool read for itself, and seconds and tokens are of "
                "those; on the others a tool was given what another had read."
            )
    return found


def articles_table(results: Results) -> Table:
    """The same in more text."""
    return tool_table(
        results,
        "evidence-articles",
        f"The columns of evidence-squad in {SENTENCES} consecutive sentences of an article, one question an article, "
        "for the gold answer.",
        ARTICLES,
        {**SQUAD_CELLS},
    )


def two_hop_table(results: Results) -> Table:
    """Answers that need two sentences."""
    return tool_table(
        results,
        "evidence-two-hop",
        "Answers that need two sentences (who holds an office, where that person lives), in constructed documents of "
        "ten: the whole pair in the named set, exactly the pair, and the pair before all others.",
        TWO_HOP,
        {
            "n": asked,
            "whole pair": share("whole"),
            "exactly the pair": share("exactly"),
            "pair first": share("ranked"),
            **SIZE,
            **SECONDS,
        },
    )


def documents_table(results: Results) -> Table:
    """Documents of our own, with what keepset gets wrong."""
    return tool_table(
        results,
        "evidence-documents",
        "A contract with amendments, a meeting log with corrections, an encyclopedia page and an incident report, "
        "written for this test: the gold sentence first, and exactly the gold sentences named.",
        DOCUMENTS,
        {"n": asked, "gold first": share("first"), "exactly gold": share("exactly"), **SIZE, **SECONDS},
        notes=(*refusals(results), *failures(results)),
    )


def refusals(results: Results) -> list[str]:
    """One line per model: which questions are said not to be in the text."""
    found = []
    for model in models(results):
        by_kind = {kind: shares(results, model, OURS, kind) for kind in (UNANSWERED, OWN)}
        if all(by_kind.values()):
            unanswered, own = (
                f"{round(refused(model, values).value * len(values))} of {len(values)}" for values in by_kind.values()
            )
            found.append(f"Said not to be in the text by {model}: {unanswered} that no sentence answers, {own} others.")
    return found


def failures(results: Results) -> list[str]:
    """One line per question of which keepset does not name exactly the gold sentences."""
    found = []
    for model in models(results):
        asked = results.select("question", model=model, tool=KEEPSET)
        for row in asked[asked["value"] == 0].to_dict("records"):
            place = "first" if row["first"] else "not first"
            found.append(
                f"Missed by {model}, {row['document']}: {row['question']} Gold {row['gold']} ({place}), "
                f"named {row['chosen']}."
            )
    return found


def found_table(results: Results) -> Table:
    """Passages that nobody wrote for keepset."""
    rows = []
    for model in models(results):
        found = results.select("exactly", model=model, questions=FOUND)
        for half in sorted({int(half) for half in found["half"]}) if len(found) else ():
            for how in (OWN_REPLY, GIVEN):
                at: dict[str, Coordinate] = {"model": model, "questions": FOUND, "half": half, "how": how}
                cells = [results.metric(what, **at) for what in ("exactly", "named", "shown", "refused")]
                others = [results.metric("refused_unanswered", **at)] if how == OWN_REPLY else []
                shown = [with_interval(cell) for cell in (*cells, *others)]
                sizes = (str(cells[0].n), *(str(cell.n) for cell in others))
                rows.append((model, str(half), how, " + ".join(sizes), *shown, *([] if others else [""])))
    return Table(
        name="evidence-found",
        caption=(
            "Passages of 15 sentences or so that nobody wrote or chose for keepset: package descriptions, READMEs, "
            "change logs, papers (`src/keepset/paper/evidence_found`). n: questions with an answer, and without. How "
            "the first half was cut into sentences was looked at, and cutting changed; the second was run after that. "
            "95 % intervals in brackets."
        ),
        columns=(
            "Model",
            "half",
            "explained",
            "n",
            "exactly the gold sentences",
            "gold among the named",
            "named or pointed at",
            "refused wrongly",
            "refused rightly",
        ),
        rows=tuple(rows),
    )


def about_table(results: Results) -> Table:
    """Whether a text is about a question."""
    rows = []
    for model in models(results):
        by_kind = {kind: shares(results, model, DEV, kind) for kind in KINDS}
        if all(by_kind.values()):
            rows.append(
                (
                    model,
                    f"{about_threshold(model):.3f}",
                    str(len(by_kind[OWN])),
                    f"{auc(by_kind[OWN], by_kind[SAME]):.3f}",
                    f"{auc(by_kind[OWN], by_kind[OTHER]):.3f}",
                    *(with_interval(refused(model, values)) for values in by_kind.values()),
                )
            )
    return Table(
        name="evidence-about",
        caption=(
            "Whether a paragraph is about a question: how much likelier the paragraph makes the question. SQuAD dev: "
            "its own question, one of another paragraph of the same article, one of another article. Refused: called "
            "not in the text at the threshold that keepset has, which was chosen on other articles. 95 % intervals in "
            "brackets."
        ),
        columns=(
            "Model",
            "threshold",
            "n each",
            "AUC, same article",
            "AUC, other article",
            *(f"refused, {kind}" for kind in KINDS),
        ),
        rows=tuple(rows),
    )


def refused(model: str, values: Sequence[float]) -> Metric:
    """Share under the threshold that keepset has for the model."""
    threshold = about_threshold(model)
    return told("refused", [value < threshold for value in values])
