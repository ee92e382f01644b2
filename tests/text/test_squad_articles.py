"""SQuAD articles as one text: sixteen sentences around a question, the answer in one of them."""

import json
from pathlib import Path

from keepset.text.squad import read_articles


def paragraph(number: int, answers: list[str]) -> dict[str, object]:
    context = " " + " ".join(
        f"Line {number}.{i} says {word}." for i, word in enumerate(["one", "two", "three", "four"])
    )
    qas = [
        {"id": f"{number}-{text}", "question": f"What {text}?",
         "answers": [{"text": text, "answer_start": context.index(text)}]}
        for text in answers
    ]  # fmt: skip
    return {"context": context, "qas": qas}


def test_a_question_is_asked_of_its_paragraph_and_what_follows(tmp_path: Path) -> None:
    path = tmp_path / "squad.json"
    paragraphs = [paragraph(i, [f"{i}.2", "two"] if i in (1, 5) else []) for i in range(6)]
    path.write_text(json.dumps({"data": [{"title": "Lines", "paragraphs": paragraphs}]}))
    (article,) = read_articles(path)
    assert len(article.sentences) == 24
    assert article.said(0).strip() == "Line 0.0 says one."
    assert article.said(23).strip() == "Line 5.3 says four."
    assert article.questions == ("What 1.2?", "What two?", "What 5.2?", "What two?")
    first, last = article.asked  # "two" stands in many sentences
    assert (first.sentences, first.gold, first.place) == (range(4, 20), 6, 0)
    assert (last.sentences, last.gold, last.place) == (range(8, 24), 22, 2)
    assert "1.2" in article.said(first.gold)
