"""Text from elsewhere is shown on a terminal, never obeyed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keepset.terminal import STEERING, harmless, one_line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]0;owned\x07", r"\x1b]0;owned\x07"),
        ("\x1b[2J gone", r"\x1b[2J gone"),
        ("\x9b31m", r"\x9b31m"),
        ("file\u202etxt.exe", r"file\u202etxt.exe"),
        ("a\u2066b\u2069", r"a\u2066b\u2069"),
        ("over\rwritten", r"over\rwritten"),
        ("not UTF-8: \udcff", r"not UTF-8: \udcff"),
        ("two\nlines\tand 漢字, naïve 🙂, שלום", "two\nlines\tand 漢字, naïve 🙂, שלום"),
    ],
)
def test_what_would_steer_a_terminal_is_written_out(text: str, shown: str) -> None:
    assert harmless(text) == shown


@given(st.text(st.characters(codec=None), max_size=40))
def test_whatever_comes_can_be_written_and_steers_nothing(text: str) -> None:
    shown = one_line(text)
    assert not STEERING.search(shown)
    assert "\n" not in shown
    shown.encode("utf-8")
