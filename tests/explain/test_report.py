"""One report, drawn three ways: nothing is lost, nothing is run, nothing is loaded."""

import io
from html.parser import HTMLParser

import pytest
from rich.console import Console

from keepset.explain.findings import Answers, BlockReport, CostReport
from keepset.explain.report import Report
from keepset.explain.words import cost_line, number_list, verdict

NASTY = '<script>alert("1")</script> & [bold]x[/bold] \x1b[31mred\x07 ünï 🎉'


def report(drops: list[float], **changes: object) -> Report:
    """Blocks ``<i>…</i>`` of a context with a gap before the first; block 0 is the evidence."""
    texts = [f"{NASTY} {i}. " for i in range(len(drops))]
    blocks, place = [], 4
    for i, (text, drop) in enumerate(zip(texts, drops, strict=True)):
        blocks.append(
            BlockReport(
                number=i,
                start=place,
                stop=place + len(text),
                tokens=3,
                drop=drop,
                measured=True,
                flip=i == 0,
                sufficient=i == 0,
                attention=0.1 / (i + 1),
                evidence=i == 0,
            )
        )
        place += len(text)
    fields: dict[str, object] = {
        "model": "tiny",
        "effort": "exact",
        "context": f"<gap{''.join(texts)}",
        "question": f"Q {NASTY}",
        "opening": f"O {NASTY}",
        "answer": f"A {NASTY}",
        "generated": True,
        "gives_answer": True,
        "knows_answer": False,
        "log_prob": -0.1,
        "case": "alternatives",
        "family": ((0,),),
        "complete": True,
        "blocks": tuple(blocks),
        "answers": Answers(clean=NASTY, only_evidence="yes", without_evidence="", no_context="no"),
        "cost": CostReport(forwards=5, keep_sets=9, tokens=1200, seconds=1.5, effect_tokens=1000, plain_tokens=3500),
    }
    return Report.model_validate(fields | changes)


def draw(shown: Report, width: int, colour: bool = False) -> str:
    out = io.StringIO()
    shown.show(Console(file=out, width=width, force_terminal=colour, color_system="truecolor" if colour else None))
    return out.getvalue()


class Reader(HTMLParser):
    """Every tag with its attributes, and all text outside style."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_holds_the_text_and_runs_nothing() -> None:
    made = report([6.0, -0.5, 0.0])
    page = made.to_html()
    reader = Reader(page)
    names = {tag for tag, _ in reader.tags}
    assert not names & {"script", "img", "link", "iframe", "bold", "gap"}
    assert "src" not in {name for _, attributes in reader.tags for name in attributes}
    links = [attributes["href"] for tag, attributes in reader.tags if tag == "a"]
    assert links == ["#block-0"]
    assert 'alert("1")' in reader.text
    assert "<gap" in reader.text
    assert "https:" not in page
    assert "http:" not in page
    blocks = [attributes for _, attributes in reader.tags if str(attributes.get("id", "")).startswith("block-")]
    assert len(blocks) == 3
    assert blocks[0]["class"] == "block evidence"
    assert "--cost), 0.600" in str(blocks[0]["style"])
    assert "--help), 0.050" in str(blocks[1]["style"])
    assert blocks[0]["title"] == "block 0; if hidden -6.00 nats, answer lost; enough alone; attention 10.0%; 3 tokens"
    assert cost_line(made) in reader.text
    assert verdict(made) in reader.text
    assert "prefers-color-scheme: dark" in page


@pytest.mark.parametrize("width", [30, 60, 76, 100, 200])
@pytest.mark.parametrize("colour", [False, True])
def test_the_terminal_is_not_steered_and_lines_fit(width: int, colour: bool) -> None:
    text = draw(report([6.0, -0.5, 0.0]), width, colour)
    assert "\x1b[31mred" not in text
    assert "\x07" not in text
    if not colour:
        assert "\x1b" not in text
        assert "●" in text
        assert "-6.00" in text
        assert "10.0%" in text
        assert all(len(line) <= width for line in text.splitlines())
    assert "[bold]" in text.replace("\n", "") or width < 100


def test_a_report_without_effects_or_attention_can_be_drawn() -> None:
    flat = report([0.0])
    blank = flat.model_copy(update={"blocks": (flat.blocks[0].model_copy(update={"attention": 0.0}),)})
    assert "0.00" in draw(blank, 100)
    assert blank.to_html()


@pytest.mark.parametrize(
    ("case", "evidence", "flips", "gives", "text"),
    [
        ("alternatives", (1,), (), True, "Block 1 alone is enough; no single block is necessary."),
        ("alternatives", (1,), (1,), True, "Block 1 alone is enough; hiding it loses the answer."),
        ("alternatives", (1,), (2,), True, "Block 1 alone is enough; hiding block 2 loses the answer."),
        ("alternatives", (1,), (0, 2), True, "Block 1 alone is enough; hiding any one of 0 and 2 loses the answer."),
        ("alternatives", (0, 1), (), False, "Each of the blocks 0 and 1 is enough alone for the answer."),
        ("necessary", (2,), (2,), True, "Block 2 is necessary, and not enough alone: hiding it loses the answer."),
        ("necessary", (0, 1, 2), (0, 1, 2), True, "No block is enough alone; hiding any one of the blocks 0, 1 and 2"),
        ("empty", (), (), True, "Nothing: no block is enough alone, and no single block is necessary."),
    ],
)
def test_the_verdict_says_which_case(
    case: str, evidence: tuple[int, ...], flips: tuple[int, ...], gives: bool, text: str
) -> None:
    made = report([0.0, 0.0, 0.0])
    blocks = tuple(
        block.model_copy(update={"evidence": block.number in evidence, "flip": block.number in flips})
        for block in made.blocks
    )
    changed = made.model_copy(update={"case": case, "blocks": blocks, "gives_answer": gives})
    assert verdict(changed).startswith(text)
    assert changed.evidence == evidence


def test_lists_and_costs_read_well() -> None:
    assert [number_list(numbers) for numbers in ([], [3], [3, 5], [3, 5, 8])] == ["", "3", "3 and 5", "3, 5 and 8"]
    assert cost_line(report([0.0, 0.0])) == (
        "9 keep sets in 5 forwards, 1,200 tokens, 1.5 s. 5 forwards of the whole prompt would take 3.5 times the "
        "tokens of the effects."
    )
