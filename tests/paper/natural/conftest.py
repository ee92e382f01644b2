"""Papers and articles small enough for every run at smoke size."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from keepset.paper.natural.documents import QASPER_FILE, SQUAD_FILES, qasper_split

TOWNS = ("Hale", "Marr", "Ostend", "Quay", "Rye", "Tarn", "Ulm", "Vale")


def squad_article(name: str) -> dict[str, object]:
    paragraphs = []
    for number in range(8):
        said = [f"The {thing} of {name} number {number} costs {number}{i} crowns." for i, thing in enumerate(TOWNS[:4])]
        context = " ".join(said)
        answer = f"{number}2 crowns"
        paragraphs.append(
            {
                "context": context,
                "qas": [
                    {
                        "id": f"{name}-{number}",
                        "question": f"What does the Ostend of {name} number {number} cost?",
                        "answers": [{"text": answer, "answer_start": context.index(answer)}],
                    }
                ],
            }
        )
    return {"title": name, "paragraphs": paragraphs}


def qasper_paper(name: str) -> dict[str, object]:
    sections = [
        {"section_name": "Data", "paragraphs": [f"We read {name} in {town}. It has 12 rooms." for town in TOWNS[:4]]},
        {
            "section_name": "Results",
            "paragraphs": [f"In {town} we saw {name} again. Nobody knew." for town in TOWNS[4:]],
        },
    ]
    asked = {
        "question": f"Where did they see {name}?",
        "answers": [{"extractive_spans": [f"In Ulm we saw {name}"], "yes_no": None, "free_form_answer": ""}],
        "evidence": [],
        "evidence_index": [6],
        "evidence_unmatched": 0,
        "evidence_float": 0,
    }
    return {"full_text": sections, "qas": [asked]}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Twelve papers and six articles; what the reader sees of them goes to a cache of their own."""
    folder = tmp_path_factory.mktemp("data")
    chosen = [f"19{i:02d}.0001" for i in range(40)]
    by_split: dict[str, list[str]] = {}
    for name in chosen:
        by_split.setdefault(qasper_split(name), []).append(name)
    names = [name for found in by_split.values() for name in found[:4]]
    written = json.dumps({name: qasper_paper(name) for name in names}).encode()
    (folder / QASPER_FILE).write_bytes(gzip.compress(written))
    for split, file in SQUAD_FILES.items():
        articles = [squad_article(f"{split} {town}") for town in TOWNS[:5]]
        (folder / file).write_bytes(gzip.compress(json.dumps({"data": articles}).encode()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KEEPSET_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield folder
