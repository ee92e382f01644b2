"""QASPER papers as one text: where the paragraphs are, and what is evidence."""

import gzip
import json
from pathlib import Path

import pytest

from keepset.text.qasper import read_qasper


def asked(question: str, evidence: list[int], **answer: object) -> dict[str, object]:
    blank = {"extractive_spans": [], "yes_no": None, "free_form_answer": "", "unanswerable": False}
    return {
        "question": f" {question} ",
        "answers": [blank | answer],
        "evidence_index": evidence,
        "evidence_unmatched": 0,
        "evidence_float": 0,
    }


PAPER = {
    "full_text": [
        {"section_name": "Introduction", "paragraphs": ["We  count\nwords.", ""]},
        {"section_name": None, "paragraphs": ["They are many.", "Nobody minds."]},
    ],
    "qas": [
        asked("What do they count?", [0], extractive_spans=["words"]),
        asked("Are they many?", [2], yes_no=True),
        asked("Why?", [3], free_form_answer="nobody knows"),
        {**asked("Which table?", [0], extractive_spans=["words"]), "evidence_float": 1},
    ],
}


def write(folder: Path, papers: object) -> Path:
    path = folder / "papers.json.gz"
    path.write_bytes(gzip.compress(json.dumps(papers).encode()))
    return path


def test_paragraphs_stand_where_they_say_and_evidence_skips_blank_ones(tmp_path: Path) -> None:
    longer = {**PAPER, "full_text": [{"section_name": "A", "paragraphs": ["word " * 50, "", "x", "y"]}]}
    paper, other = read_qasper(write(tmp_path, {"long": longer, "short": PAPER}))
    assert (paper.id, other.id) == ("short", "long")
    assert paper.text == "Introduction\n\nWe count words.\n\nThey are many.\n\nNobody minds.\n\n"
    said = [paper.text[start:stop] for start, stop in paper.paragraphs]
    assert said == ["We count words.", "They are many.", "Nobody minds."]
    assert [question.evidence for question in paper.questions] == [{0}, {1}, {2}, {0}]
    assert paper.evidence == {0, 1, 2}
    assert [question.answers for question in paper.questions] == [("words",), ("yes",), (), ("words",)]
    assert [question.fits for question in paper.questions] == [True, True, False, False]
    assert [question.extractive for question in paper.questions] == [True, False, False, True]
    assert paper.questions[0].question == "What do they count?"


def test_a_paper_without_evidence_is_left_out(tmp_path: Path) -> None:
    assert read_qasper(write(tmp_path, {"none": {**PAPER, "qas": []}})) == []


@pytest.mark.parametrize(
    "content",
    [
        b"not gzip",
        gzip.compress(b'{"a": {}}')[:-9],
        gzip.compress(b"[1]"),
        gzip.compress(b'{"a": {}}'),
        gzip.compress(b'{"a": {"full_text": []}}'),
    ],
    ids=[
        "not gzip",
        "cut short",
        "a list",
        "a paper without text",
        "a paper without questions",
    ],  # what is packed holds the time of packing
)
def test_another_file_is_one_clear_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "papers.json.gz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"papers\.json\.gz: expected QASPER papers .*, got"):
        read_qasper(path)


def test_a_missing_file_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected QASPER papers"):
        read_qasper(tmp_path / "nothing.json")
