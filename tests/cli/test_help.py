"""Every ``--help`` ends with an example, and every example is a command that can be typed."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from keepset.cli import app
from keepset.paper.catalogue import experiments

ROOT = Path(__file__).parents[2]
GROUPS = [("models",), ("teacher",)]


def every_command(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from every_command(inner, (*path, name))


ALL = list(every_command(get_command(app)))


def parse(words: list[str]) -> tuple[str, ...]:
    """The command that ``words`` would run, once all its arguments have been understood."""
    command: Any = get_command(app)
    path: tuple[str, ...] = ()
    while hasattr(command, "commands"):
        name, *words = words
        command, path = command.commands[name], (*path, name)
    command.make_context(" ".join(path), words)
    return path


def test_there_are_commands_and_groups_to_look_at() -> None:
    found = {path for path, _ in ALL}
    assert {(), ("prune",), ("models", "list"), ("teacher", "train"), *GROUPS} <= found


@pytest.mark.parametrize(("path", "command"), ALL, ids=[" ".join(("keepset", *path)) for path, _ in ALL])
def test_every_help_has_an_example_that_parses(
    path: tuple[str, ...], command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)  # examples name files of the repository
    examples = re.findall(r"`keepset ([^`]+)`", command.epilog or "")
    assert examples, f"keepset {' '.join(path)} --help has no example"
    for example in examples:
        assert parse(shlex.split(example))[: len(path)] == path
    shown = CliRunner().invoke(app, [*path, "--help"]).output
    assert "Example: keepset" in " ".join(shown.replace("`", "").split())


def test_the_help_names_every_benchmark() -> None:
    shown = re.findall(r"\w+", CliRunner().invoke(app, ["bench", "--help"]).output)
    benches = {experiment.name for experiment in experiments().values() if experiment.bench}
    assert "engine" in benches
    assert benches <= set(shown)


@pytest.mark.parametrize("words", [["prune"], ["prune", "a.txt", "--modle", "x"], ["teacher", "train", "--seed", "x"]])
def test_an_example_that_is_wrong_would_be_found(words: list[str]) -> None:
    with pytest.raises(Exception, match=r"Missing|No such option|valid integer"):
        parse(words)
