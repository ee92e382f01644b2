"""A working folder with every experiment of the package at scale ``smoke``, run once."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from keepset.cli import app
from keepset.paper.evidence.units import FILES
from keepset.paper.pretrained import counterfactual, lessons, lookup, squad, two_hop_routers
from keepset.paper.results import Results, read_results

NAMES = (
    "pretrained",
    "record_margins",
    "span_audit",
    "record_statistics",
    "record_routing",
    "sink_prefix",
    "record_scaling",
    "record_overwrite",
    "two_hop",
    "two_hop_routers",
    "lookup",
    "counterfactual_squad",
)
CACHES = (
    counterfactual.articles,
    counterfactual.questions,
    counterfactual.answers_by_kind,
    counterfactual.counterfactuals,
    lessons.trained,
    lookup.annotated_lookup,
    lookup.recovered_lookup,
    squad.sentence_routers,
    two_hop_routers.chain_routers,
)


def forget() -> None:
    """What one test trained is nothing to the next."""
    for cached in CACHES:
        cached.cache_clear()


@pytest.fixture(scope="session")
def squad_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six articles of four short paragraphs of five sentences, in both files; answers of two kinds."""
    folder = tmp_path_factory.mktemp("squad")
    articles = []
    for a, title in enumerate(("Pier", "Mill", "Gate", "Dome", "Well", "Barn")):
        paragraphs = []
        for p in range(4):
            year, name = str(1800 + 10 * a + p), f"{'ABCDEF'[a]}nn {'KLMN'[p]}orn"
            said = [f"Here {word} {p} was." for word in ("sand", "rain", "wind")]
            context = " ".join([said[0], f"The {title} was built by {name}.", said[1], f"It fell in {year}.", said[2]])
            asked = [(f"Who built {title} {p}?", name), (f"When did {title} {p} fall?", year)]
            qas = [
                {"id": f"{title}{p}{q}", "question": q, "answers": [{"text": t, "answer_start": context.index(t)}]}
                for q, t in asked
            ]
            paragraphs.append({"context": context, "qas": qas})
        articles.append({"title": title, "paragraphs": paragraphs})
    for name in FILES.values():
        (folder / name).write_bytes(gzip.compress(json.dumps({"data": articles}).encode()))
    return folder


@pytest.fixture(scope="session")
def smoke_folder(squad_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Its ``results`` and ``lessons``."""
    folder = tmp_path_factory.mktemp("smoke")
    forget()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in NAMES:
            run = CliRunner().invoke(app, ["reproduce", name, "--scale", "smoke", "--data", str(squad_data)])
            assert run.exit_code == 0, f"{name}: {run.output} {run.exception!r}"
    yield folder
    forget()


@pytest.fixture(scope="session")
def smoke(smoke_folder: Path) -> Results:
    return read_results(smoke_folder / "results", "smoke")
