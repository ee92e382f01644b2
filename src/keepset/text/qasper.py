"""QASPER as papers with evidence paragraphs (CC BY 4.0, Dasigi et al. 2021; read from a file the user names).

text         Introduction ¶ The pier was rebuilt ... ¶ It burned ... ¶ Data ¶ We collect ...      (¶: a blank line)
paragraphs                  0                      1                        2                   headings are none
question     Which corpus do they collect?         evidence {2}
"""

from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, RootModel

from keepset.files import read_record

SEPARATOR = "\n\n"


class _QasperSection(BaseModel):
    section_name: str | None
    paragraphs: list[str]


class _QasperAnswer(BaseModel):
    extractive_spans: list[str] = []
    yes_no: bool | None = None


class _QasperAsked(BaseModel):
    question: str
    answers: list[_QasperAnswer]
    evidence_index: list[int]
    evidence_unmatched: int
    evidence_float: int


class _QasperEntry(BaseModel):
    full_text: list[_QasperSection]
    qas: list[_QasperAsked]


class _QasperFile(RootModel[dict[str, _QasperEntry]]):
    """Papers by their id."""


@dataclass(frozen=True)
class PaperQuestion:
    """A question that readers of the abstract asked, and where other readers of the paper found the answer."""

    question: str
    evidence: frozenset[int]
    """Numbers of the paragraphs the annotators marked."""
    answers: tuple[str, ...]
    """Stretches of the paper that answer, or 'yes' or 'no'; none where the answer is free text."""
    extractive: bool
    """Whether ``answers`` stand in the paper."""
    fits: bool
    """The paper's rule: extractive or yes/no, with all evidence in full-text paragraphs."""


@dataclass(frozen=True)
class QasperPaper:
    """A paper with all its questions."""

    id: str
    text: str
    """Headings and paragraphs, a blank line after each."""
    paragraphs: tuple[tuple[int, int], ...]
    """Character spans in ``text``; blank ones are left out."""
    questions: tuple[PaperQuestion, ...]

    @property
    def evidence(self) -> frozenset[int]:
        """Every paragraph that a question needs."""
        return frozenset().union(*(asked.evidence for asked in self.questions))

    @property
    def words(self) -> int:
        return sum(len(self.text[start:stop].split()) for start, stop in self.paragraphs)


def read_qasper(path: Path) -> list[QasperPaper]:
    """Papers with at least one evidence paragraph, the shorter first."""
    papers = read_record(path, _QasperFile, "QASPER papers (JSON, or gzip of it)")
    found = [_paper(name, entry) for name, entry in papers.root.items()]
    return sorted((paper for paper in found if paper.evidence), key=lambda paper: (paper.words, paper.id))


def _paper(name: str, entry: _QasperEntry) -> QasperPaper:
    text = ""
    paragraphs: list[tuple[int, int]] = []
    numbers: dict[int, int] = {}
    flat = 0
    for section in entry.full_text:
        if heading := (section.section_name or "").strip():
            text += heading + SEPARATOR
        for paragraph in section.paragraphs:
            if said := " ".join(paragraph.split()):
                numbers[flat] = len(paragraphs)
                paragraphs.append((len(text), len(text) + len(said)))
                text += said + SEPARATOR
            flat += 1
    questions = tuple(_question(asked, numbers) for asked in entry.qas)
    return QasperPaper(name, text, tuple(paragraphs), questions)


def _question(asked: _QasperAsked, numbers: dict[int, int]) -> PaperQuestion:
    answer = asked.answers[0] if asked.answers else _QasperAnswer()
    spans = tuple(" ".join(span.split()) for span in answer.extractive_spans if span.strip())
    yes_no = answer.yes_no
    evidence = frozenset(numbers[i] for i in asked.evidence_index if i in numbers)
    complete = bool(evidence) and not asked.evidence_unmatched and not asked.evidence_float
    return PaperQuestion(
        question=asked.question.strip(),
        evidence=evidence,
        answers=spans or (() if yes_no is None else ("yes" if yes_no else "no",)),
        extractive=bool(spans),
        fits=complete and bool(spans or yes_no is not None),
    )
