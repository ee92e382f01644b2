"""All results as one data frame: a table is a selection of it, and anybody can make their own.

from keepset.paper import results

frame = results()
routed = frame[(frame.experiment == "chain") & (frame.what == "routed")]
routed.pivot_table("value", index="teacher", columns="arm")
"""

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from keepset.paper.result import Coordinate, Metric, RunResult, load_result

T = TypeVar("T")

NUMBERS = ["value", "n", "low", "high", "each"]

Numbers = list[tuple[int, dict[str, Any], Metric]]
"""Row of the frame, coordinates and number."""


class Results:
    """Every run of one scale, read once.

    ``frame`` has a row per number: experiment, file, what, value, n, low, high, each, and a column per coordinate
    (empty where a number has none of that name). ``runs`` has the files: config, counts, command, commit, seconds.
    """

    def __init__(self, runs: Mapping[str, RunResult]) -> None:
        self.runs = dict(runs)
        self._parts: dict[str, Results] = {}
        self._made: dict[Callable[[Results], Any], Any] = {}

    @cached_property
    def frame(self) -> pd.DataFrame:
        rows: list[dict[str, Any]] = [
            {"experiment": run.experiment, "file": file, "what": metric.what}
            | run.at
            | metric.at
            | {name: getattr(metric, name) for name in NUMBERS}
            for file, run in self.runs.items()
            for metric in run.metrics
        ]
        first = ["experiment", "file", "what", *NUMBERS]
        names = list(dict.fromkeys(name for row in rows for name in row))
        columns = first + [name for name in names if name not in first]
        # Object columns: a teacher number must not become 0.0 because other numbers have no teacher.
        frame = pd.DataFrame({name: pd.Series([row.get(name) for row in rows], dtype=object) for name in columns})
        return frame.astype({"value": float, "n": int})

    def of(self, *experiments: str) -> "Results":
        """Only these experiments."""
        key = "|".join(experiments)
        if key not in self._parts:
            self._parts[key] = Results({f: r for f, r in self.runs.items() if r.experiment in experiments})
        return self._parts[key]

    def where(self, **at: Coordinate) -> "Results":
        """Only runs with these coordinates."""
        runs = {f: r for f, r in self.runs.items() if all(r.at.get(name) == value for name, value in at.items())}
        return Results(runs)

    def once(self, make: Callable[["Results"], T]) -> T:
        """What ``make`` makes of these results, kept for whoever asks next: claims stand on many pages."""
        if make not in self._made:
            self._made[make] = make(self)
        found: T = self._made[make]
        return found

    @property
    def scale(self) -> str:
        """The one scale of all runs."""
        return next(iter(self.runs.values())).scale

    def __bool__(self) -> bool:
        return bool(self.runs)

    def run(self, **at: Coordinate) -> RunResult:
        """The first run with these coordinates; all are alike in what a table says of them."""
        for run in self.runs.values():
            if all(run.at.get(name) == value for name, value in at.items()):
                return run
        raise KeyError(f"no run with {_shown(at)} among {len(self.runs)}")

    @cached_property
    def _numbers(self) -> dict[str, Numbers]:
        """By what they are: a table asks thousands of times, and a frame answers slowly."""
        found: dict[str, Numbers] = {}
        place = 0
        for file, run in self.runs.items():
            shared = {"experiment": run.experiment, "file": file} | run.at
            for metric in run.metrics:
                found.setdefault(metric.what, []).append((place, shared | metric.at, metric))
                place += 1
        return found

    @cached_property
    def _numbers_at(self) -> dict[tuple[str, str, Coordinate], Numbers]:
        """The same numbers by one coordinate: what, its name and its value."""
        found: dict[tuple[str, str, Coordinate], Numbers] = {}
        for what, numbers in self._numbers.items():
            for number in numbers:
                for name, value in number[1].items():
                    found.setdefault((what, name, value), []).append(number)
        return found

    def _found(self, what: str, at: Mapping[str, Coordinate]) -> list[tuple[int, Metric]]:
        having = [self._numbers_at.get((what, name, value), []) for name, value in at.items()]
        fewest = min(having, key=len, default=self._numbers.get(what, []))
        return [
            (row, metric)
            for row, place, metric in fewest
            if all(place.get(name) == value for name, value in at.items())
        ]

    def select(self, what: str, **at: Coordinate) -> pd.DataFrame:
        """The rows of ``what`` at these coordinates, in the order of the files."""
        return self.frame.iloc[[row for row, _ in self._found(what, at)]]

    def values(self, what: str, **at: Coordinate) -> list[float]:
        """One value per number found; at least one."""
        found = self._found(what, at)
        if not found:
            there = ", ".join(self._numbers) or "none"
            raise KeyError(f"no number {what!r} at {_shown(at)}; there are {there}")
        return [metric.value for _, metric in found]

    def metric(self, what: str, **at: Coordinate) -> Metric:
        """The one number at these coordinates."""
        found = self._found(what, at)
        if len(found) != 1:
            raise KeyError(f"{what!r} at {_shown(at)}: expected one number, got {len(found)}")
        return found[0][1].model_copy(update={"at": dict(at)})

    def value(self, what: str, **at: Coordinate) -> float:
        """The value of the one number at these coordinates."""
        return self.metric(what, **at).value

    def coordinates(self, name: str, what: str | None = None) -> list[Any]:
        """The different values of a coordinate, in the order of the files."""
        if name not in self.frame.columns:
            return []
        frame = self.frame if what is None else self.frame[self.frame["what"] == what]
        return [value for value in dict.fromkeys(frame[name]) if value is not None]


def read_results(folder: Path, scale: str) -> Results:
    """Everything tracked at one scale."""
    root = folder / scale
    if not root.is_dir():
        raise ValueError(f"results folder: expected {root} to exist; run from the repository, or pass --results")
    files = sorted(root.rglob("*.json"))
    if not files:
        raise ValueError(f"results folder: expected result files in {root}, got none; 'keepset reproduce' makes them")
    return Results({path.relative_to(root).with_suffix("").as_posix(): load_result(path) for path in files})


def results(folder: Path | str = "results", scale: str = "small") -> pd.DataFrame:
    """A data frame of everything tracked at one scale: a row per number, a column per coordinate."""
    return read_results(Path(folder), scale).frame


def _shown(at: Mapping[str, Coordinate]) -> str:
    return ", ".join(f"{name} {value}" for name, value in at.items()) or "any coordinates"
