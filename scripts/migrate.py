"""Schema 1 -> 2, once. A rule per experiment in migrate_*.py; deleted when all tracked files are schema 2."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from keepset.paper.result import At, Metric, RunResult, save_result

ROOT = Path(__file__).parents[1] / "results" / "small"


def old_files(folder: str, experiment: str) -> dict[Path, dict[str, Any]]:
    """Path -> the schema-1 content of every file of one experiment."""
    found = {path: json.loads(path.read_text()) for path in sorted((ROOT / folder).rglob("*.json"))}
    return {p: d for p, d in found.items() if d["experiment"] == experiment and d["schema_version"] == 1}


def moved(old: dict[str, Any], to: Callable[[str], tuple[str, At]]) -> list[Metric]:
    """The metrics of an old file; ``to`` takes the glued name apart: what, coordinates."""
    metrics = []
    for metric in old["metrics"]:
        what, at = to(metric["name"])
        numbers = {name: metric[name] for name in ("value", "n", "low", "high")}
        metrics.append(Metric(what=what, at=at, **numbers))
    return metrics


def write(old: dict[str, Any], name: str, at: At, metrics: list[Metric], **changes: Any) -> None:
    """One schema-2 file ``name`` (below results/small, no ending) with what the old file says of its run."""
    kept = {key: value for key, value in old.items() if key not in ("schema_version", "metrics")} | changes
    keys = [(m.what, json.dumps(m.at, sort_keys=True)) for m in metrics]
    assert len(set(keys)) == len(keys), f"{name}: two numbers at one place"
    assert not any(set(m.at) & set(at) for m in metrics), f"{name}: a coordinate both of the run and of a number"
    save_result(RunResult(at=at, metrics=tuple(metrics), **kept), ROOT / f"{name}.json")
