"""The result of a run: one JSON file with everything needed to trust and to repeat it."""

import json
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from keepset.files import write_text

SCHEMA_VERSION = 1


class Metric(BaseModel):
    """One number, with what it was counted on."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    value: float
    n: int
    """Examples (or runs) behind the value."""
    low: float | None = None
    """Lower end of the 95 % interval."""
    high: float | None = None
    """Upper end of the 95 % interval."""


class RunResult(BaseModel):
    """One run of one experiment."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: int = SCHEMA_VERSION
    experiment: str
    """Name of the experiment, as in ``docs/paper-map.md``."""
    scale: str
    """Preset: smoke, small or paper."""
    command: str
    """The command that makes this file again."""
    config: dict[str, Any]
    """The full configuration of the run."""
    seeds: dict[str, int]
    """Name of a seed range -> first seed used from it."""
    commit: str
    """Version-control commit of the code that ran; '+changes' when the tree was not clean."""
    versions: dict[str, str]
    """Package -> version."""
    counts: dict[str, int]
    """How many examples, steps, parameters and so on."""
    seconds: float
    """Wall-clock time of the run."""
    metrics: tuple[Metric, ...]

    def metric(self, name: str) -> Metric:
        """The metric called ``name``."""
        for metric in self.metrics:
            if metric.name == name:
                return metric
        raise KeyError(f"{self.experiment}: no metric {name!r}; it has {', '.join(m.name for m in self.metrics)}")


def save_result(result: RunResult, path: Path) -> None:
    """Writes a result atomically."""
    write_text(path, json.dumps(result.model_dump(mode="json"), indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def load_result(path: Path) -> RunResult:
    """Reads a result; says plainly when the file is not one, or comes from a newer keepset."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: expected a results file (JSON), got something else: {error}") from error
    found = data.get("schema_version") if isinstance(data, dict) else None
    if not isinstance(found, int):
        raise ValueError(f"{path}: expected a results file with a 'schema_version', got none")
    if found > SCHEMA_VERSION:
        raise ValueError(
            f"{path}: expected results schema {SCHEMA_VERSION} or older, got {found}; "
            "it was written by a newer keepset: upgrade to read it"
        )
    try:
        return RunResult.model_validate(data)
    except ValidationError as error:
        raise ValueError(f"{path}: not a valid results file: {error}") from error


def load_results(folder: Path, experiment: str) -> list[RunResult]:
    """Every result of one experiment in a folder, by file name."""
    loaded = [load_result(path) for path in sorted(folder.rglob("*.json"))]
    return [result for result in loaded if result.experiment == experiment]


def package_versions() -> dict[str, str]:
    """What the run used."""
    found = {"python": platform.python_version()}
    for package in ("keepset", "torch", "transformers", "numpy"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def current_commit() -> str:
    """The commit of the source tree keepset runs from, or 'unknown' outside a checkout."""
    here = Path(__file__).parent

    def git(*args: str) -> str:
        return subprocess.run(
            ["git", "-C", str(here), *args], capture_output=True, text=True, check=True, timeout=20
        ).stdout.strip()

    try:
        commit = git("rev-parse", "HEAD")
        dirty = git("status", "--porcelain", "--untracked-files=no", "--", str(here))
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return f"{commit}+changes" if dirty else commit
