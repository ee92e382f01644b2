"""The result of a run: one JSON file with everything needed to trust and to repeat it.

    {"schema_version": 2, "experiment": "chain", "at": {"teacher": 0, "arm": "causal"}, ...
     "metrics": [
      {"what": "routed", "at": {"condition": "multihop", "router_seed": 0}, "value": 0.99, "n": 300, "low": ...},
      ...

A number has coordinates, never a name that somebody has to take apart: those of its run and its own.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from keepset.files import Frozen, read_json, write_text

SCHEMA_VERSION = 2

Coordinate = bool | int | float | str
At = dict[str, Coordinate]


class Metric(Frozen):
    """One number, with where it stands and what it was counted on."""

    what: str
    """What was measured: 'routed', 'dense', 'seconds'."""
    at: At = Field(default={})
    """Coordinates beside those of the run: arm, condition, router seed, budget."""
    value: float
    n: int
    """Examples (or runs) behind the value."""
    low: float | None = None
    """Lower end of the 95 % interval."""
    high: float | None = None
    """Upper end of the 95 % interval."""
    each: str | None = None
    """Outcome of every unit, in the order of the run: 1 right, 0 wrong, . not counted. Lets two runs be paired."""


class RunResult(Frozen):
    """One run of one experiment: one arm, policy or teacher."""

    schema_version: int = SCHEMA_VERSION
    experiment: str
    """Name of the experiment, as in ``docs/paper-map.md``."""
    scale: str
    """Preset: smoke, small or paper."""
    at: At = Field(default={})
    """Coordinates that all metrics of the run share."""
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


def save_result(result: RunResult, path: Path) -> None:
    """Writes a result atomically; a metric is one line, so that a change of one number is a change of one line."""
    head = result.model_dump(mode="json", exclude={"metrics"})
    lines = [
        json.dumps(metric.model_dump(mode="json", exclude_defaults=True), ensure_ascii=False, allow_nan=False)
        for metric in result.metrics
    ]
    text = json.dumps(head, indent=1, ensure_ascii=False, allow_nan=False).removesuffix("\n}")
    write_text(path, text + ',\n "metrics": [\n  ' + ",\n  ".join(lines) + "\n ]\n}\n")


def load_result(path: Path) -> RunResult:
    """Reads a result; says plainly when the file is not one, or comes from another keepset."""
    data = read_json(path, "a results file (JSON)")
    found = data.get("schema_version") if isinstance(data, dict) else None
    if not isinstance(found, int):
        raise ValueError(f"{path}: expected a results file with a 'schema_version', got none")
    if found > SCHEMA_VERSION:
        raise ValueError(
            f"{path}: expected results schema {SCHEMA_VERSION}, got {found}; "
            "it was written by a newer keepset: upgrade to read it"
        )
    if found < SCHEMA_VERSION:
        raise ValueError(
            f"{path}: expected results schema {SCHEMA_VERSION}, got {found}, whose numbers have names instead of "
            f"coordinates; run the command in the file again"
        )
    try:
        return RunResult.model_validate(data)
    except ValidationError as error:
        raise ValueError(f"{path}: not a valid results file: {error}") from error


def current_commit() -> str:
    """The commit of the source tree keepset runs from, or 'unknown' outside a checkout."""
    here = Path(__file__).parents[1]

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
