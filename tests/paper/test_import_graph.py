"""The picture of the package says what the source says, and the source keeps the order."""

from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from keepset.paper.import_graph import (
    LABORATORY,
    LIBRARY,
    ORDER,
    PACKAGE,
    Edges,
    edges,
    import_graph,
    imports,
    sizes,
    sources,
    stage,
)

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def found() -> Edges:
    return edges()


def test_nobody_imports_what_comes_later(found: Edges) -> None:
    assert [pair for pair in found if ORDER.index(pair[1]) > ORDER.index(pair[0])] == []


def test_the_library_never_imports_the_laboratory(found: Edges) -> None:
    assert [pair for pair in found if pair[0] in LIBRARY and pair[1] in LABORATORY] == []


def test_no_file_imports_itself_in_a_circle() -> None:
    files = {
        f"keepset/{file}".removesuffix(".py").removesuffix("/__init__").replace("/", "."): file for file in sources()
    }
    graph: dict[str, set[str]] = {}
    for module, file in files.items():
        names = [name for name, at_top in imports((PACKAGE / file).read_text(encoding="utf-8"), file) if at_top]
        homes = {name if name in files else name.rpartition(".")[0] for name in names}
        graph[module] = homes & files.keys() - {module}
    assert sum(map(len, graph.values())) > len(files)
    TopologicalSorter(graph).prepare()  # else a CycleError names the circle


def test_edges_count_files(found: Edges) -> None:
    assert found["policies", "readouts"] >= 2
    assert found["experiments", "reporting"] >= 10
    assert ("routers", "labels") not in found
    assert all(importer != imported for importer, imported in found)


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        ("seeds", "base"),
        ("models.loading", "models"),
        ("paper.result.Metric", "reporting"),
        ("paper.testbed.tasks", "testbed"),
        ("paper.chains", "experiments"),
        ("paper.routing.run", "experiments"),
        ("paper.bench.memory", "bench"),
        ("paper", "reporting"),
        ("cli", "front"),
        ("load_model", "front"),
    ],
)
def test_every_module_has_a_stage(module: str, expected: str) -> None:
    assert stage(module.split(".")) == expected


def test_imports_are_found_wherever_they_stand() -> None:
    source = "import torch\ndef f():\n    from ..models import loading"
    assert imports(source, "text/jsonl.py") == [("torch", True), ("keepset.models.loading", False)]


def test_sizes_are_those_of_the_files() -> None:
    found = sizes()
    assert list(found) == ["library", "laboratory", "tests"]
    files = list((ROOT / "tests").rglob("*.py"))
    assert found["tests"].files == len(files)
    assert found["tests"].lines == sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files)
    assert found["library"].files + found["laboratory"].files == len(list((ROOT / "src").rglob("*.py")))


def test_the_tracked_picture_is_what_the_code_draws() -> None:
    tracked = (ROOT / "docs" / "images" / "import-graph.svg").read_text(encoding="utf-8")
    assert tracked == import_graph(), "docs/images/import-graph.svg is not what 'keepset report' writes"
