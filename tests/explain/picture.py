"""The picture of the README: ``python -m tests.explain.picture explain.html explain.png``.

The page of an explanation without its last part, the list of every block, which is long.
"""

import sys
from pathlib import Path

from tests.explore.browser import chromium, missing, take

WIDTH = 1_000
"""Pixels."""


def main(html: Path, picture: Path) -> None:
    if problem := missing():
        sys.exit(f"picture: {problem}")
    with chromium() as browser:
        page = browser.new_page(viewport={"width": WIDTH, "height": WIDTH}, color_scheme="light")
        page.goto(html.resolve().as_uri())
        take(page, picture, before="Every block")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
