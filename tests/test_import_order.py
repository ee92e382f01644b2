"""Two wings: the folder order of the library is its import order, and the library never imports the laboratory."""

import subprocess
import sys

import pytest

from keepset.paper.import_graph import BASE, FRONT, PACKAGE, PAPER, STAGES, imports, sources

NEVER = {
    # The selector must not see the answer.
    "routers": {"keepset.labels", "keepset.interventions"},
    "policies": {"keepset.labels", "keepset.interventions"},
    # Tables must come out on a machine without torch.
    "paper/table": {"torch"},
    "paper/result": {"torch"},
    "figures": {"torch"},
}
EXCEPTIONS = {"policies/oracle.py": {"keepset.labels", "keepset.interventions"}}
LAZILY = "cli/laboratory.py"
"""Alone in front of both wings, and reaches the laboratory only when a command of it runs."""


def violations(source: str, file: str) -> list[str]:
    """What ``file`` (a path inside the package) may not import."""
    stage = file.split("/")[0].removesuffix(".py")
    found = [
        (".".join(name.split(".")[:2]), at_top) for name, at_top in imports(source, file)
    ]  # torch.nn, keepset.text
    names = {name for name, _ in found}
    never = NEVER.get(stage, set()) | NEVER.get(file.removesuffix(".py"), set())
    wrong = {name for name in names if name in never or name.split(".")[0] in never} - EXCEPTIONS.get(file, set())
    if stage in FRONT:
        lazily = file == LAZILY
        wrong |= {name for name, at_top in found if name == "keepset.paper" and (at_top or not lazily)}
    elif stage in BASE + STAGES:
        before = STAGES[: STAGES.index(stage) + 1] if stage in STAGES else ()
        allowed = {f"keepset.{name}" for name in BASE + before}
        wrong |= {name for name in names if name.split(".")[0] == "keepset" and name not in allowed}
    elif stage == PAPER:
        wrong |= {name for name in names if name == "keepset.cli"}
    else:
        return [f"{file}: {stage!r} has no place in the order; give it one in the design and here"]
    return [f"{file} imports {name}" for name in sorted(wrong)]


@pytest.mark.parametrize("file", sources())
def test_a_file_imports_only_what_stands_before_it(file: str) -> None:
    assert violations((PACKAGE / file).read_text(encoding="utf-8"), file) == []


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("text/jsonl.py", "from keepset.models.loading import load_model"),
        ("text/jsonl.py", "def f():\n    import keepset.models.loading"),
        ("text/jsonl.py", "from ..models import loading"),
        ("text/jsonl.py", "from keepset import models"),
        ("text/jsonl.py", "import keepset"),
        ("text/jsonl.py", "if TYPE_CHECKING:\n    from keepset.models.loading import load_model"),
        ("blocks.py", "from keepset.text import example"),
        ("interventions/probe.py", "from keepset.readouts import attention"),
        ("pruning/pruner.py", "from keepset.cli import app"),
        ("pruning/pruner.py", "def f():\n    from keepset.paper.result import Metric"),
        ("quickstart.py", "def f():\n    from keepset.paper.result import Metric"),
        (LAZILY, "from keepset.paper import report"),
        (LAZILY, "if report:\n    from keepset.paper import report"),
        ("cli/keeping.py", "def f():\n    from keepset.paper import report"),
        ("cli/__init__.py", "if TYPE_CHECKING:\n    from keepset.paper.experiment import Jobs"),
        ("routers/block.py", "from keepset.labels import evidence_set"),
        ("policies/h2o.py", "from keepset.interventions.effects import flips"),
        ("paper/table.py", "import torch"),
        ("paper/table.py", "from torch.nn import functional"),
        ("paper/chain.py", "from keepset.cli import app"),
        ("helpers/misc.py", "import os"),
    ],
)
def test_a_wrong_import_is_found(file: str, source: str) -> None:
    assert len(violations(source, file)) == 1


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("models/loading.py", "import torch\nfrom keepset import seeds\nfrom keepset.text import example"),
        ("models/loading.py", "from .bundled import fetch\nfrom ..blocks import Example"),
        ("readouts/attention.py", "from keepset.interventions import mask"),
        ("policies/oracle.py", "from keepset.labels import evidence_set"),
        (LAZILY, "from keepset import explore\ndef f():\n    from keepset.paper import report"),
        (LAZILY, "if TYPE_CHECKING:\n    from keepset.paper.experiment import Jobs"),
        ("paper/chain.py", "import torch\nfrom keepset.policies import POLICIES"),
    ],
)
def test_a_right_import_is_left_alone(file: str, source: str) -> None:
    assert violations(source, file) == []


@pytest.mark.parametrize("module", ["keepset", "keepset.paper", "keepset.paper.table"])
def test_importing_it_does_not_load_torch(module: str) -> None:
    code = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
