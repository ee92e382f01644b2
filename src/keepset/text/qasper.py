"""QASPER as papers with evidence paragraphs (CC BY 4.0, Dasigi et al. 2021; read from a file the user names).

text         Introduction ¶ The pier was rebuilt ... ¶ It burned ... ¶ Data ¶ We collect ...      (¶: a blank line)
paragraphs                  0                      1                        2                   headings are none
question     Which corpus do they collect?         evidence {2}
"""

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SEPARATOR = "\n\n"


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
    found = [_paper(name, entry) for name, entry in _papers(path).items()]
    return sorted((paper for paper in found if paper.evidence), key=lambda paper: (paper.words, paper.id))


def _paper(name: str, entry: dict[str, Any]) -> QasperPaper:
    text = ""
    paragraphs: list[tuple[int, int]] = []
    numbers: dict[int, int] = {}
    flat = 0
    for section in entry["full_text"]:
        if heading := (section["section_name"] or "").strip():
            text += heading + SEPARATOR
        for paragraph in section["paragraphs"]:
            if said := " ".join(paragraph.split()):
                numbers[flat] = len(paragraphs)
                paragraphs.append((len(text), len(text) + len(said)))
                text += said + SEPARATOR
            flat += 1
    questions = tuple(_question(asked, numbers) for asked in entry["qas"])
    return QasperPaper(name, text, tuple(paragraphs), questions)


def _question(asked: dict[str, Any], numbers: dict[int, int]) -> PaperQuestion:
    answer = asked["answers"][0] if asked["answers"] else {}
    spans = tuple(" ".join(span.split()) for span in answer.get("extractive_spans") or () if span.strip())
    yes_no = answer.get("yes_no")
    evidence = frozenset(numbers[i] for i in asked["evidence_index"] if i in numbers)
    complete = bool(evidence) and not asked["evidence_unmatched"] and not asked["evidence_float"]
    return PaperQuestion(
        question=asked["question"].strip(),
        evidence=evidence,
        answers=spans or (() if yes_no is None else ("yes" if yes_no else "no",)),
        extractive=bool(spans),
        fits=complete and bool(spans or yes_no is not None),
    )


def _papers(path: Path) -> dict[str, dict[str, Any]]:
    try:
        written = path.read_bytes()
        papers: dict[str, dict[str, Any]] = json.loads(gzip.decompress(written) if path.suffix == ".gz" else written)
    except OSError as error:
        raise ValueError(f"{path}: expected QASPER papers (JSON, or gzip of it), got: {error}") from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: expected QASPER papers as JSON, got something else: {error}") from error
    if not isinstance(papers, dict) or not all("full_text" in entry for entry in papers.values()):
        raise ValueError(f"{path}: expected papers with 'full_text' and 'qas' by their id, got something else")
    return papers
