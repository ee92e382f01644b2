"""Debian's Chromium, driven by Playwright; where there is none, who needs it is told what is missing."""

import io
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
COLOURS = 256
"""Of a picture: text and a few tints need no more, and the files stay small."""


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


def take(page: "Page", path: Path, whole: bool = True, before: str | None = None) -> None:
    """A picture of the page, down to the heading ``before`` where one is named; or of what the window shows of it."""
    from PIL import Image

    page.evaluate("window.scrollTo(0, 0)")
    page.wait_for_timeout(700)  # what fades in has faded in
    picture = Image.open(io.BytesIO(page.screenshot(full_page=whole, animations="disabled"))).convert("RGB")
    if before and (box := page.get_by_role("heading", name=before).first.bounding_box()):
        picture = picture.crop((0, 0, picture.width, int(box["y"])))
    # Without the second step a tint that covers little, as the bar beside a sentence, becomes its neighbour's.
    picture.quantize(COLOURS, kmeans=1, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path}: {picture.width} x {picture.height}, {path.stat().st_size / 1000:.0f} kB")
