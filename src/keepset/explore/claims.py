"""The third view: what the paper claims and what came out here. Written by ``keepset report``; imports no torch."""

from pathlib import Path

from pydantic import Field

from keepset.files import Frozen, read_record

FILE = "claims.json"
VERDICTS = ("does not hold", "cannot be told", "holds")
"""In the order of the page: what fails is looked for first."""
NOT_THE_PAPERS = ("-", "not in it")
"""What stands for the paper's number in a claim that is not the paper's."""


class PaperClaim(Frozen):
    """One claim with its verdict."""

    claim: str
    verdict: str = Field(pattern=f"^({'|'.join(VERDICTS)})$")
    paper: str
    """The paper's number."""
    here: str
    """The number here, with its interval."""
    n: str
    command: str
    """What makes it."""


class PaperSection(Frozen):
    """Claims about one matter, and the figures that show it."""

    title: str
    claims: tuple[PaperClaim, ...]
    figures: tuple[str, ...]
    """Files below the folder of results."""


class PaperClaims(Frozen):
    """All of them."""

    sections: tuple[PaperSection, ...]


def read_claims(folder: Path) -> tuple[PaperClaims, dict[str, str]] | None:
    """The claims, and figure -> SVG; None where there are no results. They lie in the repository, not in a wheel."""
    if not (folder / FILE).is_file():
        return None
    claims = read_record(folder / FILE, PaperClaims, "what 'keepset report' wrote")
    names = [name for section in claims.sections for name in section.figures]
    return claims, {name: (folder / name).read_text(encoding="utf-8") for name in names}
