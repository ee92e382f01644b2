"""The lines of the README that say what the paper claims and what held here, from the results alone.

They stand between two marks; ``keepset report`` writes them, and a test holds them to the results.
"""

from collections import Counter
from pathlib import Path

from keepset.files import write_text
from keepset.paper.catalogue import claims
from keepset.paper.claim import FAILS, HOLDS, OPEN, Claim
from keepset.paper.results import Results

BEGIN, END = "<!-- results: written by keepset report -->\n", "<!-- end of results -->"

LINES = {
    "Multi-hop: causal routers at 0.95": "Routers trained on evidence keep whole chains of facts, on every teacher",
    "Multi-hop: imitation moves across teachers": "Routers trained on attention keep them or not, by teacher",
    "Teachers that learned from one chain follow": (
        "… and the teachers follow the chain they are asked for, among others (not in the paper)"
    ),
    "Unique retrieval: evidence sets agree across teachers better than adaptive attention": (
        "Trained twice, models agree on what is evidence, and not on what they attend to (where attention starts sharp)"
    ),
    "Pruned before the question to 10 %: causal ahead of H2O (smollm2-135m-instruct, lines, global)": (
        "With a tenth of a document's lines kept before the question, they save more of SmolLM2's answers than H2O "
        "(all tasks, the register log among them)"
    ),
    "Pruned before the question to 10 %: causal ahead of KVzip, per head and token (smollm2-135m-instruct, lines": (
        "… than KVzip head by head, where both let go of keys and values after the whole document was read"
    ),
    "Fact sheets, 10% of the lines before any question (smollm2-135m-instruct): causal ahead of KVzip, per head": (
        "On sheets of facts, than KVzip as kvpress runs it (not in the paper)"
    ),
    "Fact sheets, 10% of the lines before any question (smollm2-135m-instruct): causal ahead of KVzip, max": (
        "… and than KVzip's scores, if they too choose whole lines (they cost many times the router)"
    ),
    "Fact sheets, 25% of the lines before any question (smollm2-135m-instruct): causal ahead of KVzip, max": (
        "… the same with a quarter of the lines kept"
    ),
    "Hardened chains: imitation recovers": "Where teachers learn harder chains, routers trained on attention recover",
    "Aggregation at chance": "Counting cannot be done from a part of the context",
}
"""How the name of a claim begins -> what it says, in plain words."""
BEYOND = "Gold sentence and no other named, SQuAD dev (smollm2-135m-instruct)"


def front_lines(results: Results) -> str:
    """A table of a few claims, one line beyond the paper, and how many claims there are of each verdict."""
    judged = [claim for _, claim in claims(results)]
    rows = ["| the paper says | here (95 % interval) | |", "|---|---|---|"]
    for begins, said in LINES.items():
        if claim := find(judged, begins):
            rows.append(f"| {said} | {claim.here}, {claim.n} | **{claim.verdict}** |")
    lines = [*rows, ""]
    if claim := find(judged, BEYOND):
        lines += [
            "Beyond the paper: for the right answers to SQuAD questions, SmolLM2's evidence is the sentence people",
            f"marked, and no other, on {claim.here} of {claim.n}",
            "([evidence-squad](docs/results/labels/evidence-squad.md), beside the other tools).",
        ]
    verdicts = Counter(claim.verdict for claim in judged)
    counted = f"{verdicts[HOLDS]} hold, {verdicts[FAILS]} do not, {verdicts[OPEN]} cannot be told"
    lines.append(f"Of {len(judged)} claims {counted}: [docs/results/README.md](docs/results/README.md).")
    return "\n".join(lines) + "\n"


def find(judged: list[Claim], begins: str) -> Claim | None:
    """The first claim whose name begins so; none where its results are not there."""
    return next((claim for claim in judged if claim.claim.startswith(begins)), None)


def with_front_lines(page: str, results: Results) -> str:
    """``page`` with the lines between its marks; a page without marks stays as it is."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    return f"{before}{begin}{front_lines(results)}{end}{after}" if begin and end else page


def write_front_page(readme: Path, results: Results) -> list[Path]:
    """Writes the lines into the README, where there is one."""
    if not readme.is_file():
        return []
    page = readme.read_text(encoding="utf-8")
    write_text(readme, with_front_lines(page, results))
    return [readme]
