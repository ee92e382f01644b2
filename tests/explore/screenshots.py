"""The pictures of docs/explore.md: ``python -m tests.explore.screenshots docs/images``, with a real model.

Every tab at the width of a desk and of a phone; whole pages, but of the long list of claims its beginning.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from keepset.explore.claims import read_claims
from keepset.explore.explorer import Explorer
from keepset.explore.samples import SAMPLES
from keepset.explore.server import REPOSITORY_RESULTS, free_port, serve, shipped_compressor
from keepset.models.loading import load_model
from tests.explore.browser import chromium, missing, take

if TYPE_CHECKING:
    from playwright.sync_api import Page

MODEL = "smollm2-135m-instruct"
SAMPLE = next(sample for sample in SAMPLES if sample.name == "contract")
TABS = {"rests": "What it rests on", "keep": "What to keep", "paper": "The paper"}
"""Name of a picture -> the tab it shows."""
WIDTHS = {1280: 900, 400: 800}
"""Pixels of the window: width -> height."""
WAIT = 1_800_000.0


def main(folder: Path) -> None:
    if problem := missing():
        sys.exit(f"screenshots: {problem}")
    explorer = Explorer(*load_model(MODEL), MODEL, shipped_compressor())
    served = serve(explorer, read_claims(REPOSITORY_RESULTS), free_port(None), wait=False)
    with chromium() as browser:
        context = browser.new_context(color_scheme="light")
        context.set_default_timeout(WAIT)
        page = context.new_page()
        page.goto(served.local_url)
        work(page)
        for width, height in WIDTHS.items():
            page.set_viewport_size({"width": width, "height": height})
            for name, tab in TABS.items():
                page.get_by_role("tab", name=tab).click()
                take(page, folder / f"explore-{name}-{width}.png", whole=name != "paper")
    served.close(verbose=False)


def work(page: "Page") -> None:
    """Asks once, and waits until every tab has what it shows."""
    page.get_by_role("button", name=SAMPLE.title).click()
    page.wait_for_function("document.querySelector('#document textarea').value.length > 100")
    page.get_by_role("button", name="Ask", exact=True).click()
    page.locator("#result .by-effect").wait_for()
    page.get_by_role("tab", name=TABS["keep"]).click()
    page.wait_for_function("document.querySelectorAll('#answers td[data-label=tokens]').length === 3")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
