"""SQuAD as questions with a gold sentence, on an excerpt written for this test."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from keepset.text.squad import read_squad, sample_squad

PIER = "The pier was rebuilt in 1931. Dr. Vane ran it until the war. It burned down in 1944, as Vane had feared."


def asked(id: str, question: str, context: str, *answers: str) -> dict[str, Any]:
    marked = [{"text": text, "answer_start": context.index(text)} for text in answers]
    return {"id": id, "question": question, "answers": marked}


def written(folder: Path, articles: dict[str, list[dict[str, Any]]], name: str = "squad.json.gz") -> Path:
    data = {"data": [{"title": title, "paragraphs": paragraphs} for title, paragraphs in articles.items()]}
    text = json.dumps(data).encode()
    path = folder / name
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    return path


def pier(*questions: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    return {"Pier": [{"context": PIER, "qas": list(questions)}]}


@pytest.mark.parametrize("name", ["squad.json", "squad.json.gz"])
def test_a_question_has_the_sentence_that_holds_its_answer(tmp_path: Path, name: str) -> None:
    path = written(tmp_path, pier(asked("a", " Who ran the pier? ", PIER, "Dr. Vane", "Vane", "Dr. Vane")), name)
    (question,) = read_squad(path)
    assert (question.question, question.answers, question.gold) == ("Who ran the pier?", ("Dr. Vane", "Vane"), 1)
    start, stop = question.sentences[question.gold]
    assert PIER[start:stop].strip() == "Dr. Vane ran it until the war."
    assert (question.article, question.paragraph, len(question.sentences)) == ("Pier", 0, 3)


def test_questions_without_one_gold_sentence_are_left_out(tmp_path: Path) -> None:
    twice = asked("twice", "Who feared it?", PIER, "Vane")  # stands in two sentences
    apart = asked("apart", "When?", PIER, "1931", "1944")  # annotators mark different ones
    fine = asked("fine", "When was it rebuilt?", PIER, "1931")
    assert [question.id for question in read_squad(written(tmp_path, pier(twice, apart, fine)))] == ["fine"]


def many(folder: Path) -> Path:
    """Three articles of 1, 2 and 3 paragraphs, two questions each."""
    articles: dict[str, list[dict[str, Any]]] = {}
    for size, title in enumerate(("A", "B", "C"), start=1):
        for number in range(size):
            context = " ".join(f"Sentence {title}{number}{i} says {title}{i}." for i in range(4 + size))
            questions = [asked(f"{title}{number}{i}", f"What of {i}?", context, f"{title}{i}.") for i in (0, 1)]
            articles.setdefault(title, []).append({"context": context, "qas": questions})
    return written(folder, articles)


def test_a_sample_takes_one_question_a_paragraph_and_articles_in_turn(tmp_path: Path) -> None:
    questions = read_squad(many(tmp_path))
    assert len(questions) == 12
    sample = sample_squad(questions, 6, seed=3)
    assert [question.article for question in sample] == ["A", "B", "C", "B", "C", "C"]
    assert len({(question.article, question.paragraph) for question in sample}) == 6
    assert sample_squad(questions, 6, seed=3) == sample
    assert sample_squad(questions, 4, seed=3) == sample[:4], "a shorter sample is the beginning of a longer one"
    assert any(sample_squad(questions, 6, seed=seed) != sample for seed in range(4, 8))


def test_a_sample_keeps_to_the_number_of_sentences(tmp_path: Path) -> None:
    questions = read_squad(many(tmp_path))
    assert {question.article for question in sample_squad(questions, 2, 0, fewest=6, most=6)} == {"B"}
    with pytest.raises(ValueError, match="SQuAD: expected 3 paragraphs of 6 to 6 sentences, got 2"):
        sample_squad(questions, 3, 0, fewest=6, most=6)


def test_a_file_that_is_not_squad_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"none\.json: expected a SQuAD v1\.1 file"):
        read_squad(tmp_path / "none.json")
    for text in (b"{}", b"[1]", b"not json", b"[" * 100_000):
        (tmp_path / "other.json").write_bytes(text)
        with pytest.raises(ValueError, match=r"other\.json: expected a SQuAD v1\.1 file .*, got"):
            read_squad(tmp_path / "other.json")
    whole = written(tmp_path, pier(asked("a", "When?", PIER, "1931"))).read_bytes()
    for damaged in (whole[:-20], whole[:12] + b"\xff" * 20 + whole[32:]):
        (tmp_path / "other.json.gz").write_bytes(damaged)
        with pytest.raises(
            ValueError, match=r"other\.json\.gz: expected a SQuAD v1\.1 file .*, got a gzip file that is"
        ):
            read_squad(tmp_path / "other.json.gz")


def test_an_entry_that_lacks_something_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, {"Pier": [{"context": PIER}]})
    with pytest.raises(ValueError, match=r"got something else \(data\.0\.paragraphs\.0\.qas: Field required\)"):
        read_squad(path)


def test_a_question_that_the_text_does_not_answer_is_left_out(tmp_path: Path) -> None:
    path = written(tmp_path, pier(asked("none", "Who built it?", PIER), asked("fine", "When?", PIER, "1931")))
    assert [question.id for question in read_squad(path)] == ["fine"]
