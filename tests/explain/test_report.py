"""One report, drawn in several ways: nothing is lost, nothing is run, nothing is loaded."""

import io
import json
from html.parser import HTMLParser

import pytest
from rich.console import Console

from keepset.explain.findings import POINTS, BlockReport, CostReport, PartReport, Replies, points_elsewhere
from keepset.explain.page import html_page
from keepset.explain.report import Report, json_text
from keepset.explain.terminal import bar
from keepset.explain.words import (
    ANYWAY,
    NOT_FROM_TEXT,
    NOT_IN_TEXT,
    OTHERWISE,
    SAME,
    cited,
    cost_line,
    number_list,
    verdict,
    written_otherwise,
    written_the_same,
)

NASTY = '<script>alert("1")</script> & [bold]x[/bold] \x1b[31mred\x07 ünï 🎉'
SAID = "The cat is grey. The ferry leaves at noon. So"


def part(text: str = "The cat is grey.", **changes: object) -> PartReport:
    start = SAID.index(text)
    fields: dict[str, object] = {
        "text": text,
        "start": start,
        "stop": start + len(text),
        "worth": 9.0,
        "evidence": (0,),
        "others": (),
        "close": (),
        "spoken": True,
        "total": 0.98,
        "left": None,
        "restored": (0.98, 0.4, -0.2),
        "carried": (),
    }
    return PartReport.model_validate(fields | changes)


def report(*parts: PartReport, **changes: object) -> Report:
    """Three nasty blocks of a context with a gap before the first."""
    texts = [f"{NASTY} {i}. " for i in range(3)]
    starts = [4 + sum(map(len, texts[:i])) for i in range(3)]
    fields: dict[str, object] = {
        "model": "tiny",
        "effort": "evidence",
        "context": f"<gap{''.join(texts)}",
        "question": f"Q {NASTY}",
        "said": SAID,
        "generated": True,
        "about": 0.5,
        "about_threshold": 0.22,
        "in_text": True,
        "parts": parts or (part(), part("The ferry leaves at noon.", evidence=(1, 2)), part("So", **NOTHING)),
        "blocks": tuple(
            BlockReport(number=i, start=start, stop=start + len(text), tokens=3)
            for i, (start, text) in enumerate(zip(starts, texts, strict=True))
        ),
        "replies": Replies(everything=NASTY, only_evidence="yes", without_evidence=""),
        "cost": CostReport(forwards=5, keep_sets=9, tokens=1200, seconds=1.5),
    }
    return Report.model_validate(fields | changes)


NOTHING: dict[str, object] = {"evidence": (), "spoken": False, "total": 0.0, "restored": (0.0, 0.0, 0.0), "worth": 0.2}


def draw(shown: Report, width: int = 120, colour: bool = False) -> str:
    out = io.StringIO()
    shown.show(Console(file=out, width=width, force_terminal=colour, color_system="truecolor" if colour else None))
    return out.getvalue()


class Reader(HTMLParser):
    """Every tag with its attributes, and all text of the body."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "body":
            self.text = ""

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_holds_the_text_and_runs_nothing() -> None:
    made = report()
    page = made.to_html()
    reader = Reader(page)
    assert not {tag for tag, _ in reader.tags} & {"script", "img", "link", "iframe", "bold", "gap"}
    assert "src" not in {name for _, attributes in reader.tags for name in attributes}
    anchors = {str(attributes["id"]) for _, attributes in reader.tags if "id" in attributes}
    links = {str(attributes["href"]) for tag, attributes in reader.tags if tag == "a"}
    assert anchors == {"r0-0", "r0-1", "r0-2"}
    assert links == {f"#{anchor}" for anchor in anchors}
    assert 'alert("1")' in reader.text
    assert "<gap" in reader.text
    assert "https:" not in page
    assert "http:" not in page
    assert "The cat is grey [0]." in reader.text
    assert verdict(made.parts[0]) in reader.text
    assert cost_line(made) in reader.text
    titles = [str(attributes.get("title")) for _, attributes in reader.tags]
    assert "98%, 8.82 nats" in titles
    assert NOT_IN_TEXT not in reader.text
    assert "no longer said" not in reader.text, "not measured, not shown"
    assert "attention" not in reader.text


def test_what_was_measured_is_shown() -> None:
    made = report(part(carried=(0.9, 0.0, -0.1), left=0.1))
    blocks = tuple(block.model_copy(update={"attention": 0.25}) for block in made.blocks)
    reader = Reader(made.model_copy(update={"blocks": blocks}).to_html())
    assert "no longer said without it" in reader.text
    assert "25.0%" in reader.text
    titles = [str(attributes.get("title")) for _, attributes in reader.tags]
    assert "90%, 8.10 nats" in titles
    assert not [title for title in titles if "-" in title], "hiding the third block helps: nothing goes with it"


def test_what_the_model_would_write_anyway_stands_together_and_nats_are_explained() -> None:
    made = report(part(), part("The ferry leaves at noon.", **NOTHING), part("So", **NOTHING))
    text = Reader(made.to_html()).text
    assert text.count(ANYWAY) == 1
    assert text.index(verdict(made.parts[0])) < text.index(ANYWAY) < text.index("“The ferry") < text.index("“So”")
    assert text.count("2.3 nats ten times") == 1


def test_a_notebook_shows_the_page_in_a_frame() -> None:
    made = report()
    ((tag, attributes),) = Reader(made._repr_html_()).tags
    assert tag == "iframe"
    assert attributes["srcdoc"] == made.to_html()
    assert "sandbox" in attributes


def test_several_reports_on_one_page_and_in_one_file() -> None:
    made = report()
    reader = Reader(html_page([made, made]))
    anchors = [attributes["id"] for _, attributes in reader.tags if "id" in attributes]
    assert len(anchors) == len(set(anchors)) == 6
    assert Report.model_validate(json.loads(json_text([made]))) == made
    assert [Report.model_validate(each) for each in json.loads(json_text([made, made]))] == [made, made]


@pytest.mark.parametrize("width", [30, 60, 76, 100, 200])
@pytest.mark.parametrize("colour", [False, True])
def test_the_terminal_is_not_steered_and_lines_fit(width: int, colour: bool) -> None:
    text = draw(report(), width, colour)
    assert "\x1b[31mred" not in text
    assert "\x07" not in text
    if not colour:
        assert "\x1b" not in text
        assert "evidence" in text
        assert ("█" in text) == (width >= 60)
        assert "nats" not in text
        assert all(len(line) <= width for line in text.splitlines())
    assert "[bold]" in text.replace("\n", "") or width < 100


@pytest.mark.parametrize(("about", "said"), [(0.1, NOT_IN_TEXT), (0.9, NOT_FROM_TEXT)])
def test_not_in_the_text_comes_first(about: float, said: str) -> None:
    """A text may be about something else, or answer while the model talks about something else."""
    made = report(in_text=False, about=about, about_threshold=0.2)
    assert draw(made).startswith(said)
    text = Reader(made.to_html()).text
    assert text.index(said) < text.index("Q <script>")
    assert "What the reply rests on all the same" in text
    assert made.to_dict()["in_text"] is False


def test_the_reply_with_its_sources() -> None:
    assert report().cited() == "The cat is grey [0]. The ferry leaves at noon [1, 2]. So"
    assert report(part(others=(2,))).cited() == "The cat is grey [0 or 2]. The ferry leaves at noon. So"
    assert cited(report(part("So", evidence=(1,)))).endswith("So [1]")
    assert report(part("noon", evidence=(1,))).cited() == "The cat is grey. The ferry leaves at noon [1]. So"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "Block 0 is enough alone."),
        ({"close": (2,)}, "Block 0 is enough alone. 2 comes close."),
        ({"others": (1, 2)}, "Block 0 is enough alone; 1 and 2 say it too."),
        ({"evidence": (0, 2)}, "Blocks 0 and 2 together are enough; no single block is."),
        ({"evidence": (), "total": 0.45}, "It rests on the text as a whole: the best few blocks restore 45% of it."),
        (NOTHING, "The text adds little to this: the model would write it, or something like it, anyway."),
        (
            {"left": 0.05, "carried": (0.95, 0.0, 0.0)},
            "Block 0 is enough alone. Nothing else restores most of it: without it, 5% is left.",
        ),
        ({"left": 0.8}, "Block 0 is enough alone. Without it the rest of the text still restores 80%."),
        (
            {"left": -0.2, "carried": (0.9, 0.6, 0.0)},
            "Block 0 is enough alone. Nothing else restores most of it: without it, 0% is left. "
            "Hiding 1 takes most of it, too.",
        ),
    ],
)
def test_the_verdict_claims_what_was_measured(changes: dict[str, object], text: str) -> None:
    assert verdict(part(**changes)) == text


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"pointed": 2}, True),
        ({"pointed": 1}, False),
        ({"pointed": 0}, False),
        ({"pointed": None}, False),
        ({"pointed": 2, "about": 0.1}, False),
    ],
    ids=["another block", "hardly more than the evidence", "the evidence", "not known", "a text about something else"],
)
def test_what_the_question_clearly_points_at_is_said_before_what_the_reply_rests_on(
    changes: dict[str, object], said: bool
) -> None:
    abouts = (0.3, 0.3 + 0.9 * POINTS, 0.3 + 1.1 * POINTS)
    blocks = tuple(
        block.model_copy(update={"about": about}) for block, about in zip(report().blocks, abouts, strict=True)
    )
    made = report(part(), blocks=blocks, **changes)
    line = "The question seems to be about block"
    for text in (draw(made), Reader(made.to_html()).text):
        assert (line in text) == said
        assert not said or text.index(line) < text.index(verdict(made.parts[0]))


def test_what_the_model_makes_of_the_block_that_the_question_points_at_is_said_with_it() -> None:
    replies = Replies(everything="A cat.", only_evidence="A dog.", without_evidence="", only_pointed="Space <12>.")
    made = report(part(**NOTHING), pointed=2, replies=replies)
    for text in (draw(made), Reader(made.to_html()).text):
        assert "From that block alone the model writes: Space <12>." in text
        assert "block 2 alone" in text
    silent = made.model_copy(update={"replies": replies.model_copy(update={"only_pointed": None})})
    assert "that block alone" not in draw(silent)


def test_a_reply_that_rests_on_nothing_leaves_what_the_question_points_at() -> None:
    made = report(part(**NOTHING), pointed=2)
    assert "The question seems to be about block 2, which" in draw(made)


@pytest.mark.parametrize(
    ("said", "alone", "otherwise"),
    [
        ("The landlord has agreed to allow a cat.", "The landlord lets the ground-floor flat to Ms Ines …", True),
        ("The deposit is held by the Service.", "The deposit is held by the Service, which is an agency …", False),
        ("It was lit on 3 October 1897, in the rain, by the keeper's wife.", "On 3 October 1897.", False),
        ("The rent is 985 pounds a month.", "The rent is 940 pounds a month.", True),
        ("The rent is 985 pounds a month from May.", "The rent is 985 pounds a month, payable on the 1st …", False),
        ("Yes.", "Yes.", False),
        ("It is so.", "", False),
    ],
)
def test_evidence_that_makes_the_model_write_something_else_is_said_to(said: str, alone: str, otherwise: bool) -> None:
    replies = Replies(everything=said, only_evidence=alone, without_evidence="")
    changed = report(replies=replies, said=said, parts=(), question="Is that it?")
    assert written_otherwise(changed) == otherwise
    assert (OTHERWISE in draw(changed)) == otherwise
    assert (OTHERWISE.split(":")[0] in changed.to_html()) == otherwise
    given = changed.model_copy(update={"generated": False})
    assert not written_otherwise(given), "a given answer is not the model's to repeat"


@pytest.mark.parametrize(
    ("said", "without", "same"),
    [
        ("You may keep it for 12 months.", "You will keep it for 12 months.", True),
        ("You may keep it for 12 months, in a box.", "You keep it for 12 months …", True),
        ("You may keep it for 12 months.", "You may keep it for 6 months.", False),
        ("The keeper was Ida Moen.", "The keeper was Harald Moe, a …", False),
        ("Yes.", "", False),
    ],
)
def test_a_reply_that_is_the_same_without_its_evidence_is_said_to_be(said: str, without: str, same: bool) -> None:
    replies = Replies(everything=said, only_evidence=said, without_evidence=without)
    made = report(replies=replies, said=said, parts=(), question="Is that it?")
    assert written_the_same(made) == same
    assert (SAME in draw(made)) == same
    assert (SAME.split(":")[0] in made.to_html()) == same
    assert not written_the_same(made.model_copy(update={"generated": False}))


def test_sources_that_the_reply_neither_needs_nor_comes_from_are_called_doubtful_first() -> None:
    replies = Replies(everything="For 12 months.", only_evidence="For 9 days.", without_evidence="For 12 months …")
    made = report(said="For 12 months.", replies=replies, question="How long?")
    for text in (draw(made), Reader(made.to_html()).text):
        assert text.index("The sources below are doubtful") < text.index("How long?")
    for field, said in (("only_evidence", "For 12 months."), ("without_evidence", "For 9 days.")):
        sound = made.model_copy(update={"replies": replies.model_copy(update={field: said})})
        assert "doubtful" not in draw(sound), field


def test_roles_and_ranks() -> None:
    made = report(part(restored=(0.98, 0.4, 0.5), close=(1,)), part("So", evidence=(2,), restored=(0.0, 0.0, 0.8)))
    assert [made.role(i) for i in range(3)] == ["evidence", "close", "evidence"]
    assert [block.number for block in made.top(2)] == [2, 0]
    assert [block.number for block in made.top(9)] == [2, 0, 1]
    with pytest.raises(ValueError, match="k: expected at least 1 block, got -1"):
        made.top(-1)
    assert made.evidence == (0, 2)
    assert report(part(restored=(1.4, -3.0, 0.0))).strength(0) == 1.0
    assert report(part(restored=(1.4, -3.0, 0.0))).strength(1) == 0.0


def test_of_many_blocks_that_come_close_the_closest_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    made = report(part(restored=(0.98, 0.4, 0.5), close=(1, 2)))
    assert "more" not in draw(made).split("bars:")[0]
    monkeypatch.setattr("keepset.explain.terminal.CLOSEST", 1)
    drawn = draw(made).split("bars:")[0]
    assert "1 and 2 come close." in drawn, "every one is named"
    assert "close    2" in drawn
    assert "close    1" not in drawn
    assert "1 more block comes close, no closer than these." in drawn


def test_a_data_frame_has_a_row_for_each_part_and_block() -> None:
    frame = report().to_pandas()
    assert len(frame) == 9
    assert frame[frame.part == 0].role.tolist() == ["evidence", "not needed", "not needed"]
    assert frame.restored[0] == 0.98
    assert frame.carried.isna().all()


def test_bars_lists_and_costs_read_well() -> None:
    assert (bar(-2.0), bar(0.52), bar(7.0)) == ("░" * 10, "█" * 5 + "░" * 5, "█" * 10)
    assert [number_list(numbers) for numbers in ([], [3], [3, 5], [3, 5, 8])] == ["", "3", "3 and 5", "3, 5 and 8"]
    assert cost_line(report()) == (
        "1.5 s: the text was hidden in 9 ways, 1,200 tokens in 5 runs of the model; effort evidence."
    )


def test_a_question_points_elsewhere_only_clearly() -> None:
    near = [0.1, 0.5, 0.5 - 1.1 * POINTS]
    assert points_elsewhere(1, near, []), "a reply that rests on nothing"
    assert points_elsewhere(1, near, [0, 2])
    assert not points_elsewhere(1, near, [1, 2]), "the reply rests on it"
    assert not points_elsewhere(1, [0.1, 0.5, 0.5 - 0.9 * POINTS], [0, 2]), "another is nearly as much about it"
