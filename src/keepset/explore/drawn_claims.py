"""The third view as HTML: each claim of the paper with its verdict and number, and the figures."""

from base64 import b64encode
from collections import Counter
from html import escape

from keepset.explore.claims import NOT_THE_PAPERS, VERDICTS, PaperClaim, PaperClaims

ALL = "all"
NOT_INSTALLED = (
    "The results are not installed here. They are in docs/results of the repository, not in the package: start "
    "keepset explore in a clone, or say where they are with --results."
)


SEVERAL = {"does not hold": "do not hold", "cannot be told": "cannot be told", "holds": "hold"}
"""Verdict -> as it is said of several claims."""


def verdicts(claims: PaperClaims) -> list[str]:
    """Every verdict there is, in the order of the page."""
    found = {claim.verdict for section in claims.sections for claim in section.claims}
    return [verdict for verdict in VERDICTS if verdict in found]


def drawn_claims(claims: PaperClaims, figures: dict[str, str], verdict: str = ALL) -> str:
    """Only the claims of one verdict, or all, in each section those that fail first."""
    everything = [claim for section in claims.sections for claim in section.claims]
    counts = Counter(claim.verdict for claim in everything)
    counted = ", ".join(f"{counts[name]} {name if counts[name] == 1 else SEVERAL[name]}" for name in verdicts(claims))
    sections = []
    for section in claims.sections:
        chosen = sorted(
            (claim for claim in section.claims if verdict in (ALL, claim.verdict)),
            key=lambda claim: VERDICTS.index(claim.verdict),
        )
        if chosen:
            pictures = "".join(_figure(name, figures[name]) for name in section.figures)
            sections.append(f"<h2>{escape(section.title)}</h2>{''.join(map(_claim, chosen))}{pictures}")
    return f"""<p class="verdict">Of {len(everything)} claims {escape(counted)}. A claim cannot be told where its
interval leaves both open, or where it rests on too few independent units.</p>{"".join(sections)}"""


def _claim(claim: PaperClaim) -> str:
    css = claim.verdict.replace(" ", "-")
    paper = "not in the paper" if claim.paper in NOT_THE_PAPERS else f"in the paper {claim.paper}"
    return f"""<div class="claim"><p><span class="badge {escape(css)}">{escape(claim.verdict)}</span>
<b>{escape(claim.claim)}</b></p>
<p>here {escape(claim.here)} <span class="soft">({escape(claim.n)})</span></p>
<p class="soft">{escape(paper)}; made by <code>{escape(claim.command)}</code></p></div>"""


def _figure(name: str, svg: str) -> str:
    """As an image: its names cannot clash with another figure's, and nothing in it runs."""
    data = b64encode(svg.encode()).decode()
    return f'<figure><img alt="{escape(name)}" src="data:image/svg+xml;base64,{data}"></figure>'
