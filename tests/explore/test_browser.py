"""The page in a browser, with an untrained model: what a visitor sees and does."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from keepset.explain.page import html_page
from keepset.explore.explorer import Limits
from keepset.explore.samples import SAMPLES
from keepset.explore.server import free_port, serve
from tests.explain.test_report import part, report
from tests.explore.browser import chromium, missing
from tests.explore.test_drawn import claims
from tests.explore.tiny_explorer import tiny_explorer

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

WAIT = 120_000.0
"""Milliseconds: a busy machine must not fail."""
NASTY = (
    "<script>document.title = 'run'</script> <img src=x onerror=\"document.title='run'\"> ${1+1} {{value}}. So it is."
)

pytestmark = [pytest.mark.long, pytest.mark.skipif(missing() is not None, reason=str(missing()))]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    page = serve(
        tiny_explorer(Limits(characters=2_000)), (claims(), {"chains/fig.svg": "<svg/>"}), free_port(None), False
    )
    yield page.local_url
    page.close(verbose=False)


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    with chromium() as found:
        yield found


@pytest.fixture
def visitor(browser: "Browser", url: str) -> Iterator["Page"]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    yield opened(context, url)
    context.close()


def opened(context: Any, url: str) -> "Page":
    context.set_default_timeout(WAIT)
    page: Page = context.new_page()
    page.goto(url)
    page.get_by_role("button", name="Ask", exact=True).wait_for()
    return page


def ask(page: "Page", document: str, question: str = "What is it?") -> None:
    page.get_by_label("Document", exact=True).fill(document)
    page.get_by_label("Question", exact=True).fill(question)
    page.get_by_label("Question", exact=True).press("Enter")
    page.locator("#result h2, #result .note").first.wait_for()


def kept(page: "Page") -> list[str]:
    return [str(found.get_attribute("data-sentence")) for found in page.locator("#kept .kept p").all()]


def test_an_example_is_asked_and_the_slider_changes_what_is_kept(visitor: "Page") -> None:
    visitor.get_by_role("button", name=SAMPLES[0].title).click()
    visitor.wait_for_function("document.querySelector('#document textarea').value.length > 100")
    visitor.get_by_role("button", name="Ask", exact=True).click()
    visitor.locator("#result .by-effect").wait_for()
    assert visitor.locator("#result .by-attention .block").count() == 10
    visitor.get_by_role("tab", name="What to keep").click()
    visitor.locator("#kept .kept p").first.wait_for()
    assert len(kept(visitor)) == 3
    slider = visitor.get_by_role("slider")
    slider.focus()
    for _ in range(6):  # from 30 to 60 per cent, by keyboard
        slider.press("ArrowRight")
    visitor.wait_for_function("document.querySelectorAll('#kept .kept p').length === 6")
    assert visitor.locator("#kept .dropped p").count() == 4
    visitor.wait_for_function("document.querySelectorAll('#answers td[data-label=tokens]').length >= 2")


def test_text_of_a_visitor_is_shown_as_text(visitor: "Page") -> None:
    ask(visitor, NASTY, "Is <script>document.title = 'run'</script> shown?")
    shown = visitor.locator("#result .by-effect").inner_text()
    assert "<script>document.title = 'run'</script>" in shown
    assert "${1+1} {{value}}" in shown
    visitor.get_by_role("tab", name="What to keep").click()
    visitor.locator("#kept .kept p").first.wait_for()
    assert "<script>" in visitor.locator("#kept").inner_text()
    assert visitor.title() == "keepset explore"


def test_two_visitors_do_not_see_each_other(browser: "Browser", url: str) -> None:
    contexts = [browser.new_context() for _ in range(2)]
    first, second = (opened(context, url) for context in contexts)
    ask(first, "The secret of the first is 11. It is kept.")
    second.get_by_role("tab", name="What to keep").click()
    second.locator("#kept", has_text="Ask something in the first tab").wait_for()
    second.get_by_role("tab", name="What it rests on").click()
    assert second.get_by_label("Document", exact=True).input_value() == ""
    ask(second, "The secret of the second is 22. It is open.")
    for page, own, other in ((first, "first is 11", "second is 22"), (second, "second is 22", "first is 11")):
        page.get_by_role("tab", name="What to keep").click()
        page.locator("#kept .kept p").first.wait_for()
        text = page.locator("body").inner_text()
        assert own in text
        assert other not in text
    for context in contexts:
        context.close()


def test_a_document_that_is_too_long_is_refused(visitor: "Page") -> None:
    ask(visitor, "Word. " * 400)
    assert "this page takes at most 2,000" in visitor.locator("#result .note").inner_text()
    assert not visitor.get_by_role("button", name="Go on all the same").is_visible()


def test_a_costly_document_is_begun_when_the_visitor_goes_on(browser: "Browser") -> None:
    served = serve(tiny_explorer(Limits(unasked_seconds=0.0)), None, free_port(None), False)
    context = browser.new_context()
    page = opened(context, served.local_url)
    ask(page, "The code for NARO is 4821. The code for BELU is 3390.")
    assert "2 sentences" in page.locator("#result .note").inner_text()
    page.get_by_role("button", name="Go on all the same").click()
    page.locator("#result .by-effect").wait_for()
    assert not page.get_by_role("button", name="Go on all the same").is_visible()
    page.get_by_role("tab", name="The paper").click()
    assert "The results are not installed here" in page.locator("#claims").inner_text()
    context.close()
    served.close(verbose=False)


def test_a_text_file_is_loaded_and_another_is_not(visitor: "Page", tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("The pier was rebuilt in 1931.", encoding="utf-8")
    (tmp_path / "other.txt").write_bytes(b"\xff\xfe\xfa")
    chooser = visitor.locator("input[type=file]")
    chooser.set_input_files(tmp_path / "note.txt")
    visitor.wait_for_function("document.querySelector('#document textarea').value.includes('1931')")
    chooser.set_input_files(tmp_path / "other.txt")
    visitor.locator("#look", has_text="not text in UTF-8").wait_for()
    assert "1931" in visitor.get_by_label("Document", exact=True).input_value()


def test_the_paper_claim_by_claim(visitor: "Page") -> None:
    visitor.get_by_role("tab", name="The paper").click()
    assert visitor.locator("#claims .claim").count() == 3
    visitor.get_by_label("does not hold").check()
    visitor.wait_for_function("document.querySelectorAll('#claims .claim').length === 1")


def test_nothing_is_loaded_from_elsewhere_and_a_phone_needs_no_sideways_scrolling(browser: "Browser", url: str) -> None:
    context = browser.new_context(viewport={"width": 400, "height": 800})
    asked: list[str] = []
    context.on("request", lambda request: asked.append(request.url))
    page = opened(context, url)
    ask(page, "The code for NARO is 4821. The code for BELU is 3390.")
    widths = {}
    for tab, filled in (("What it rests on", "#result h2"), ("What to keep", "#kept h2"), ("The paper", "#claims h2")):
        page.get_by_role("tab", name=tab).click()
        page.locator(filled).first.wait_for()
        widths[tab] = page.evaluate("document.documentElement.scrollWidth")
    assert {tab: width for tab, width in widths.items() if width > 400} == {}
    assert len(asked) > 5
    hosts = {urlsplit(address).hostname for address in asked if not address.startswith(("data:", "blob:"))}
    assert hosts == {"127.0.0.1"}
    context.close()


def test_the_page_that_explain_writes_fits_a_phone(browser: "Browser") -> None:
    page = browser.new_page(viewport={"width": 400, "height": 800})
    page.set_content(html_page([report(part(others=(1,), close=(2,)))]))
    assert page.evaluate("document.documentElement.scrollWidth") == 400
    page.close()


def test_another_policy_ranks_the_same_document_anew(visitor: "Page") -> None:
    ask(visitor, "The code for NARO is 4821. The code for BELU is 3390. No code is new. It is now 7.")
    visitor.get_by_role("tab", name="What to keep").click()
    visitor.locator("#kept", has_text="Ranked by the router that ships").wait_for()
    visitor.locator("#policy input").click()
    visitor.get_by_role("option", name="recency").click()
    visitor.locator("#kept", has_text="Ranked by recency").wait_for()
    assert kept(visitor)[-1] == "3", "the last sentence is the most recent one"


def test_a_keyboard_is_enough(visitor: "Page") -> None:
    visitor.get_by_label("Document", exact=True).focus()
    visitor.keyboard.type("The code for NARO is 4821. The code for BELU is 3390.")
    for element in ("question", "ask"):
        for _ in range(6):
            visitor.keyboard.press("Tab")
            if visitor.evaluate(f"document.activeElement.closest('#{element}') !== null"):
                break
        else:
            pytest.fail(f"six tabs do not reach {element}")
        if element == "question":
            visitor.keyboard.type("What is it?")
    visitor.keyboard.press("Enter")
    result = visitor.locator("#result .by-effect")
    result.wait_for()
    assert "4821" in result.inner_text(), "the document that was typed is shown"


def test_who_asks_while_too_many_wait_is_turned_away_and_nobody_else_is(browser: "Browser") -> None:
    explorer = tiny_explorer(Limits(waiting=1))
    go = threading.Event()

    def wait(*_: object) -> None:
        go.wait(60)

    hook = explorer.model.register_forward_pre_hook(wait)
    served = serve(explorer, None, free_port(None), False)
    contexts = [browser.new_context() for _ in range(3)]
    pages = [opened(context, served.local_url) for context in contexts]
    for page in pages:
        page.get_by_label("Document", exact=True).fill("The code for NARO is 4821. The code for BELU is 3390.")
        page.get_by_label("Question", exact=True).fill("What is it?")
        page.get_by_role("button", name="Ask", exact=True).click()
        page.wait_for_timeout(500)
    busy = "currently busy. Please try again"
    pages[-1].get_by_text(busy).first.wait_for()
    go.set()
    for page in pages[:-1]:
        page.locator("#result .by-effect").wait_for()
    turned_away = [page.get_by_text(busy).count() > 0 for page in pages]
    answered = [page.locator("#result .by-effect").count() > 0 for page in pages]
    assert (turned_away, answered) == ([False, False, True], [True, True, False])
    hook.remove()
    for context in contexts:
        context.close()
    served.close(verbose=False)
