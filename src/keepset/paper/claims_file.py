"""``docs/results/claims.json``: every claim with its verdict, by section, for the page that shows them."""

from collections.abc import Iterable, Mapping

from keepset.explore.claims import PaperClaim, PaperClaims, PaperSection
from keepset.paper.claim import Claim
from keepset.paper.experiment import Experiment


def claims_file(found: Iterable[tuple[Experiment, Claim]], titles: Mapping[str, str], rendered: Iterable[str]) -> str:
    """As JSON; ``titles`` are those of the sections, ``rendered`` the files there are below ``docs``."""
    claims: dict[str, list[PaperClaim]] = {section: [] for section in titles}
    for experiment, claim in found:
        claims[experiment.reports[0].section].append(
            PaperClaim(
                claim=claim.claim,
                verdict=claim.verdict,
                paper=claim.paper,
                here=claim.here,
                n=claim.n,
                command=experiment.command,
            )
        )
    sections = tuple(
        PaperSection(title=titles[section], claims=tuple(inside), figures=_figures(section, rendered))
        for section, inside in claims.items()
        if inside
    )
    return PaperClaims(sections=sections).model_dump_json(indent=2) + "\n"


def _figures(section: str, rendered: Iterable[str]) -> tuple[str, ...]:
    inside = (path.removeprefix("results/") for path in rendered if path.endswith(".svg"))
    return tuple(sorted(path for path in inside if path.startswith(f"{section}/")))
