"""A text that somebody hands to a command: a file, or standard input. No torch here: mistakes are said at once."""

import sys
from pathlib import Path


def read_context(path: Path) -> str:
    """Everything in a text file, or on standard input for ``-``."""
    try:
        written = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
        text = written.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: expected a text file in UTF-8, got something else: {error}") from error
    except OSError as error:
        raise ValueError(f"{path}: expected a text file, or - for standard input, got: {error.strerror}") from error
    if not text.strip():
        raise ValueError(f"{path}: expected some text, got {'only white space' if text else 'nothing'}")
    return text


def check_context(path: Path) -> None:
    """Raises ValueError where ``read_context`` will; standard input can be read only once, and is left alone."""
    if str(path) != "-":
        read_context(path)
