"""Line breaks that only keep a text within a width, as in e-mails, licences and books in plain text.

The pier was rebuilt in 1931 by the engineer who      a wrap: the line is full, the next one goes on in lower case
had built the first one.                              an end, by its full stop
Opening hours: 9 to 17                                an end: what follows begins anew
- A list of what the harbour has to offer to guests   a wrap: the next line is set in under the item's mark
  and to the crews.
"""

import re
from itertools import pairwise

from keepset.text.bm25 import words
from keepset.text.lexical import COMMON

BREAK = r"(?>\r\n|[\n\r\u2028\u2029])"
NARROWEST, WIDEST = 40, 120
"""Characters of the longest line of a paragraph that somebody wrapped. Set by eye on four text files,
as is the next."""
FULL = 0.6
"""Of the longest line: a shorter one was ended on purpose."""
UNDERLINE = re.compile(r"([-=~^*#_.+])\1{2,}")
"""What stands under a heading, or between two parts: what follows is a paragraph of its own."""
PROSE_WIDTH, PROSE_WORDS = 60, 2
"""Characters of the longest line, and small words ("of", "the") of a line, from which a single line is taken for
prose: code and fields have fewer."""
COLUMNS = re.compile(r"\s{3,}|[|│┃]")
FINAL = re.compile("[.!?…。！？][\"'”’»)\\]]*$")
ENDS = re.compile("[.!?…:;。！？][\"'”’»)\\]]*$")
QUOTES = "\"'“‘«"
ITEM = re.compile(r"(?:[-*•–—+#>|]|\(?\w{1,3}[.)])\s")
"""How an item of a list begins."""


def wraps(text: str) -> frozenset[int]:
    """Where the breaks begin that are wraps. A paragraph is wrapped if most of the lines that do not end a sentence are
    full, and more of the lines after them go on than begin anew; where as many do, if it ends as a sentence does."""
    found: set[int] = set()
    lines = [(start, stop, text[start:stop].strip()) for start, stop in _lines(text)]
    paragraph: list[tuple[int, int, str]] = []
    for line in [*lines, (len(text), len(text), "")]:
        if line[2] and not UNDERLINE.fullmatch(line[2]):
            paragraph.append(line)
        else:
            found |= _wraps_of(paragraph) | _wraps_of_items(text, paragraph)
            paragraph = []
    return frozenset(found)


def _lines(text: str) -> list[tuple[int, int]]:
    breaks = [(0, 0), *(found.span() for found in re.finditer(BREAK, text)), (len(text), len(text))]
    return [(begin, end) for (_, begin), (end, _) in pairwise(breaks)]


def _wraps_of(paragraph: list[tuple[int, int, str]]) -> set[int]:
    width = max((len(said) for *_, said in paragraph), default=0)
    if not NARROWEST <= width <= WIDEST:
        return set()
    pairs = [(stop, said, after) for (_, stop, said), (*_, after) in pairwise(paragraph) if not ITEM.match(after)]
    unfinished = [(stop, said, after) for stop, said, after in pairs if not ENDS.search(said)]
    full = [
        (stop, said, after)
        for stop, said, after in unfinished
        if len(said) >= FULL * width or (said.endswith(",") and after[0].islower())
    ]
    final = FINAL.search(paragraph[-1][2]) is not None
    pushed = {stop for stop, said, after in unfinished if (final or after[0].islower()) and _pushed(said, after, width)}
    going_on = sum(_goes_on(said, after) for _, said, after in full)
    anew = sum(after[0].isalnum() and not _goes_on(said, after) for _, said, after in full)
    more = going_on > anew or (going_on == anew > 0 and final)
    if 2 * len(full) <= len(unfinished) or not more:
        return pushed
    ended = {stop for stop, said, after in pairs if ENDS.search(said) and after[0].islower()}  # "approx." at the edge
    return {stop for stop, *_ in full} | ended | pushed


def _wraps_of_items(text: str, paragraph: list[tuple[int, int, str]]) -> set[int]:
    """After each long line of an item that is followed by one set in under its mark."""
    found: set[int] = set()
    mark: int | None = None  # the column of the last item's
    for (start, stop, said), (after_start, after_stop, after) in pairwise(paragraph):
        if ITEM.match(said):
            mark = _column(text[start:stop])
        set_in = mark is not None and _column(text[after_start:after_stop]) > mark
        if set_in and len(said) >= NARROWEST and not (ENDS.search(said) or ITEM.match(after)):
            found.add(stop)
    return found


def _column(line: str) -> int:
    expanded = line.expandtabs()
    return len(expanded) - len(expanded.lstrip())


def _pushed(said: str, after: str, width: int) -> bool:
    """Prose whose next word did not fit: a wrap even where the other lines are fields or headings."""
    word = after.split()[0]
    small = sum(part in COMMON for part in words(said))
    prose = width >= PROSE_WIDTH and small >= PROSE_WORDS and word.isalpha() and not COLUMNS.search(said + after)
    return prose and len(said) + 1 + len(word) > width


def _goes_on(said: str, after: str) -> bool:
    """In lower case, in capitals, or after a comma or a word that ends nothing ("of", "the"). In quotes, too, but
    not where both lines begin so, as they do in data."""
    first = after.lstrip(QUOTES)[:1] if said[0] not in QUOTES else after[0]
    if first.islower() or (said.isupper() and after.isupper()):
        return True
    return first.isalpha() and (said.endswith(",") or said.split()[-1] in COMMON)
