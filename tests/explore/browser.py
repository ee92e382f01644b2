"""Debian's Chromium, driven by Playwright; where there is none, who needs it is told what is missing."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def missing() -> str | None:
    """What a browser test lacks here; None when nothing."""
    if shutil.which("chromium") is None:
        return "no Chromium on this machine; on Debian: apt-get install chromium"
    try:
        import playwright.sync_api  # noqa: F401
    except ImportError:
        return "no Playwright; pip install playwright"
    return None


@contextmanager
def chromium() -> Iterator["Browser"]:
    """A headless browser with a profile of its own, which is thrown away."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        path = Path(shutil.which("chromium") or "chromium")
        browser = driver.chromium.launch(executable_path=path, headless=True, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()
