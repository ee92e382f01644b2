"""The folder order of the design is the import order: a stage imports only what stands before it."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import keepset

PACKAGE = Path(keepset.__file__).parent
BASE = ("files", "blocks", "seeds", "results")
STAGES = (
    "tasks",
    "models",
    "interventions",
    "readouts",
    "labels",
    "routers",
    "policies",
    "pruning",
    "evaluation",
    "experiments",
    "jobs",
    "reports",
    "explore",
)
FRONT = ("__init__", "__main__", "cli", "explanation", "quickstart", "training")
"""May import everything; nothing imports them."""
NEVER = {
    # The selector must not see the answer.
    "routers": {"keepset.labels", "keepset.interventions"},
    "policies": {"keepset.labels", "keepset.interventions"},
    # Tables must come out on a machine without torch.
    "reports": {"torch"},
}
EXCEPTIONS = {"policies/oracle.py": {"keepset.labels", "keepset.interventions"}}
SOURCES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))


def imported(source: str, file: str) -> set[str]:
    """Every name imported anywhere in ``source``, to two levels: ``torch.nn``, ``keepset.tasks``."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            package = ["keepset", *file.split("/")[:-1]]
            above = package[: len(package) + 1 - node.level] if node.level else []
            module = ".".join(above + ([node.module] if node.module else []))
            found |= {f"{module}.{alias.name}" for alias in node.names}
    return {".".join(name.split(".")[:2]) for name in found}


def violations(source: str, file: str) -> list[str]:
    """What ``file`` (a path inside the package) may not import."""
    stage = file.split("/")[0].removesuffix(".py")
    if stage in FRONT:
        return []
    if stage not in BASE + STAGES:
        return [f"{file}: {stage!r} has no place in the order; give it one in the design and here"]
    before = STAGES[: STAGES.index(stage) + 1] if stage in STAGES else ()
    allowed = {f"keepset.{name}" for name in BASE + before}
    names = imported(source, file)
    wrong = {name for name in names if name.split(".")[0] == "keepset" and name not in allowed}
    never = NEVER.get(stage, set()) - EXCEPTIONS.get(file, set())
    wrong |= {name for name in names if name in never or name.split(".")[0] in never}
    return [f"{file} imports {name}" for name in sorted(wrong)]


@pytest.mark.parametrize("file", SOURCES)
def test_a_file_imports_only_what_stands_before_it(file: str) -> None:
    assert violations((PACKAGE / file).read_text(encoding="utf-8"), file) == []


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("tasks/unique.py", "from keepset.models.teacher import load_teacher"),
        ("tasks/unique.py", "def f():\n    import keepset.models.teacher"),
        ("tasks/unique.py", "from ..models import teacher"),
        ("tasks/unique.py", "from keepset import models"),
        ("tasks/unique.py", "import keepset"),
        ("blocks.py", "from keepset.tasks import Vocabulary"),
        ("interventions/mask.py", "from keepset.readouts import attention"),
        ("evaluation/dense.py", "from keepset.cli import app"),
        ("routers/chain.py", "from keepset.labels import evidence_set"),
        ("policies/h2o.py", "from keepset.interventions.effects import flips"),
        ("reports/tables.py", "import torch"),
        ("reports/tables.py", "from torch.nn import functional"),
        ("helpers/misc.py", "import os"),
    ],
)
def test_a_wrong_import_is_found(file: str, source: str) -> None:
    assert len(violations(source, file)) == 1


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("models/teacher.py", "import torch\nfrom keepset import seeds\nfrom keepset.tasks import Vocabulary"),
        ("models/teacher.py", "from .config import TeacherConfig\nfrom ..blocks import Example"),
        ("readouts/attention.py", "from keepset.interventions import mask"),
        ("policies/oracle.py", "from keepset.labels import evidence_set"),
        ("cli.py", "import keepset.reports\nfrom keepset import explore"),
    ],
)
def test_a_right_import_is_left_alone(file: str, source: str) -> None:
    assert violations(source, file) == []


@pytest.mark.skipif("reports/__init__.py" not in SOURCES, reason="there are no reports yet")
def test_importing_the_reports_does_not_load_torch() -> None:
    code = "import sys, keepset.reports; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
