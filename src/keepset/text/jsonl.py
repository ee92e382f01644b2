"""Rows of a JSONL file, one example or one document each.

{"context": "The pier is closed. The fort is open.", "question": "What is closed?", "answer": "the pier"}
{"blocks": ["The pier is closed.", "The fort is open."], "question": "What is open?", "answer": "the fort",
 "candidates": ["the fort", "the pier"], "id": "opening-7"}                          (on one line)

{"text": "The pier is closed. The fort is open.", "id": "guide"}                     a document

``context`` is cut into blocks by the caller's rule; ``blocks`` are taken as they are, a line break after each.
Other fields are ignored. A line that is no such row raises ValueError with the field, the rule and the value.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, NoReturn

from transformers import PreTrainedTokenizerBase

from keepset.text.example import TextExample, text_example
from keepset.text.prompt import short

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
SEPARATOR = "\n"
"""Between a row's own blocks; hidden with the block before it."""


@dataclass(frozen=True)
class Fields:
    """What a row may hold."""

    names: tuple[str, ...]
    needed: tuple[tuple[str, ...], ...]
    """One of each of these must be there."""


EXAMPLE = Fields(
    ("context", "blocks", "question", "answer", "candidates", "id"), (("question",), ("answer",), ("context", "blocks"))
)
DOCUMENT = Fields(("text", "id"), (("text",),))


@dataclass(frozen=True)
class Line:
    """One line of a file, as it stands there."""

    number: int
    """From 1."""
    raw: bytes
    wrong: str | None = None
    """Why it holds no row, where whoever read it knows: a file that is no text."""

    @property
    def content(self) -> bytes:
        """Without a byte order mark (only the first line may have one) and white space around it; empty when blank."""
        return (self.raw.removeprefix(BYTE_ORDER_MARK) if self.number == 1 else self.raw).strip()


@dataclass(frozen=True)
class Row:
    """A question about a context."""

    line: int
    id: str
    """The row's own, or its line number."""
    context: str
    own_blocks: tuple[tuple[int, int], ...] | None
    """Characters of the blocks, when the row brought its own."""
    question: str
    answer: str
    candidates: tuple[str, ...]
    """Answers to choose from; empty when the row has none."""


@dataclass(frozen=True)
class DocumentRow:
    """A text by itself."""

    id: str
    """The row's own, or its line number."""
    text: str


def parse_row(line: Line, columns: Mapping[str, str] | None = None) -> Row:
    """The row a line holds; ``columns`` says what a field is called there, where it has another name."""
    data = _object(line, columns, "context, question and answer")
    context, own_blocks = _context(data)
    return Row(
        line=line.number,
        id=_id(data, line.number),
        context=context,
        own_blocks=own_blocks,
        question=_text(data, "question"),
        answer=_text(data, "answer"),
        candidates=_candidates(data),
    )


def parse_document(line: Line, columns: Mapping[str, str] | None = None) -> DocumentRow:
    """The document a line holds; ``columns`` as for ``parse_row``."""
    data = _object(line, columns, "text")
    return DocumentRow(_id(data, line.number), _text(data, "text"))


def parse_json(line: Line) -> Any:
    """What a line says, held to the standard: UTF-8, no NaN, no broken characters."""
    try:
        data = json.loads(line.content.decode("utf-8"), parse_constant=_no_constant)
        json.dumps(data, ensure_ascii=False, allow_nan=False).encode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"row: expected UTF-8, got byte {error.object[error.start]:#04x} at {error.start}") from error
    except UnicodeEncodeError as error:
        raise ValueError("row: expected whole characters, got half of a surrogate pair") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"row: expected one JSON object on the line, got an error: {error}") from error
    except RecursionError as error:
        raise ValueError("row: expected a flat JSON object, got one nested too deeply") from error
    return data


def row_example(row: Row, tokenizer: PreTrainedTokenizerBase, blocks: str | int) -> TextExample:
    """The example of a row, with the row's own blocks when it has some."""
    cut = row.own_blocks or blocks
    return text_example(tokenizer, row.context, row.question, row.answer, cut, row.candidates or None)


def _object(line: Line, columns: Mapping[str, str] | None, fields: str) -> dict[str, Any]:
    """What a line holds, by our names; ``fields`` says in the error what should have been there."""
    if line.wrong:
        raise ValueError(line.wrong)
    data = parse_json(line)
    if not isinstance(data, dict):
        raise ValueError(f"row: expected an object with {fields}, got {short(data)}")
    return _renamed(data, columns or {})


def _renamed(data: dict[str, Any], columns: Mapping[str, str]) -> dict[str, Any]:
    """A field that has another name is found under that name only."""
    others = {name: value for name, value in data.items() if name not in columns and name not in columns.values()}
    return others | {field: data[column] for field, column in columns.items() if column in data}


def _context(data: dict[str, Any]) -> tuple[str, tuple[tuple[int, int], ...] | None]:
    if ("context" in data) == ("blocks" in data):
        found = "both" if "context" in data else "neither"
        raise ValueError(f"row: expected either context or blocks, got {found}")
    if "context" in data:
        return _text(data, "context"), None
    texts = _texts(data, "blocks")
    texts = [text + SEPARATOR for text in texts[:-1]] + texts[-1:]
    edges = accumulate((len(text) for text in texts), initial=0)
    return "".join(texts), tuple(pairwise(edges))


def _candidates(data: dict[str, Any]) -> tuple[str, ...]:
    # None is how tables write a missing value.
    return () if data.get("candidates") is None else tuple(_texts(data, "candidates"))


def _id(data: dict[str, Any], line: int) -> str:
    value = data.get("id")
    if value is None:
        return str(line)
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(f"id: expected a string or a whole number, got {short(value)}")
    return str(value)


def _texts(data: dict[str, Any], field: str) -> list[str]:
    values = data[field]
    if not isinstance(values, list) or not values:
        raise ValueError(f"{field}: expected a list of strings, got {short(values)}")
    return [_check_text(f"{field}[{i}]", value) for i, value in enumerate(values)]


def _text(data: dict[str, Any], field: str) -> str:
    if field not in data:
        raise ValueError(f"{field}: expected some text, but the row has no such field; it has {_names(data)}")
    return _check_text(field, data[field])


def _check_text(name: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{name}: expected some text, got {short(value)}")
    return value


def _names(data: dict[str, Any]) -> str:
    return ", ".join(data) or "no fields"


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"row: expected standard JSON, got the number {name}")
