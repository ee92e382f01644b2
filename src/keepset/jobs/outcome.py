"""What becomes of a row, whatever is done to it: a record, or a reject with the reason."""

import json
from collections.abc import Mapping
from typing import Generic, NamedTuple, TypeVar

from pydantic import ConfigDict

from keepset.files import Frozen
from keepset.text.jsonl import Line, parse_json

MODEL_FAILURES = (ValueError, RuntimeError, ArithmeticError, MemoryError)
"""What a single row may do to a model. Anything else is a fault of the program and stops it."""


class Record(Frozen):
    """What was made of one row; which columns that has is declared by each kind of job."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    id: str
    """The row's own, or its line number."""
    line: int
    """Line of the input, from 1; unlike ids, never twice."""


R = TypeVar("R", bound=Record)


class Reject(Frozen):
    """A row of which nothing could be made."""

    line: int
    reason: str
    row: str
    """JSON: the row exactly as it was given; where that is none, the line as a string."""

    def to_json(self) -> str:
        return f'{{"line": {self.line}, "reason": {_quoted(self.reason)}, "row": {self.row}}}'


class Outcome(NamedTuple, Generic[R]):
    """What became of some rows."""

    records: list[R]
    rejects: list[Reject]

    @property
    def rows(self) -> int:
        return len(self.records) + len(self.rejects)


class GroupDone(NamedTuple, Generic[R]):
    """A group of rows, done."""

    outcome: Outcome[R]
    spent: Mapping[str, float]
    """What it cost, by unit: forwards, tokens."""
    seconds: float


def reject(line: Line, reason: str) -> Reject:
    text = line.content.decode("utf-8", errors="replace")
    try:
        parse_json(line)
    except ValueError:
        text = _quoted(text)
    return Reject(line=line.number, reason=reason, row=text)


def model_failed(line: Line, error: Exception) -> Reject:
    """The reject of a row on which the model failed."""
    return reject(line, f"model: {type(error).__name__}: {error}")


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
