"""What is drawn says what was found, and no text of a visitor becomes markup."""

import re

import torch

from keepset.explain.words import NOT_IN_TEXT
from keepset.explore.asking import Refusal
from keepset.explore.claims import PaperClaim, PaperClaims, PaperSection
from keepset.explore.drawn_asking import drawn_refusal, drawn_report
from keepset.explore.drawn_claims import drawn_claims, verdicts
from keepset.explore.drawn_keeping import drawn_comparison, drawn_cut
from keepset.explore.explorer import FromKept, Ranking
from keepset.explore.keeping import Comparison, cut
from tests.explain.test_report import NASTY, part, report


def nasty_ranking() -> Ranking:
    return Ranking("x", False, torch.tensor([0.0, 3.0, 1.0]), (5, 5, 5), 0.5)


def claims() -> PaperClaims:
    def claim(name: str, verdict: str) -> PaperClaim:
        return PaperClaim(claim=name, verdict=verdict, paper="1", here="<b>2", n="3 teachers", command="keepset report")

    first = PaperSection(title="Chains", claims=(claim("A", "holds"),), figures=("chains/fig.svg",))
    second = PaperSection(title="Cost", claims=(claim("B", "holds"), claim("C", "does not hold")), figures=())
    return PaperClaims(sections=(first, second))


def test_a_report_names_sources_and_paints_both_ways() -> None:
    drawn = drawn_report(report())
    assert "<script>" not in drawn
    assert "&lt;script&gt;" in drawn
    assert "is enough alone" in drawn
    assert drawn.count('class="block') == 6
    assert drawn.count("var(--attended)") == 3
    assert (
        drawn.index("Reply") < drawn.index("What it rests on") < drawn.index("By effect") < drawn.index("By attention")
    )


def test_every_citation_leads_to_its_sentence() -> None:
    drawn = drawn_report(report())
    named = set(re.findall(r'href="#(sentence-\d+)"', drawn))
    assert named == {"sentence-0", "sentence-1", "sentence-2"}
    assert all(drawn.count(f'id="{name}"') == 1 for name in named)


def test_what_the_text_does_not_say_is_said_first() -> None:
    drawn = drawn_report(report(about=0.1, in_text=False))
    assert drawn.index(NOT_IN_TEXT) < drawn.index("Reply")


def test_what_is_no_longer_said_shows_where_it_was_measured() -> None:
    assert "no longer said" not in drawn_report(report())
    assert "without it 80% is no longer said" in drawn_report(report(part(carried=(0.8, 0.0, -0.3), left=0.1)))


def test_a_refusal_is_text() -> None:
    assert "<script>" not in drawn_refusal(Refusal(NASTY))


def test_kept_and_dropped_hold_every_sentence_once() -> None:
    found = report(part(evidence=(2,)))
    drawn = drawn_cut(found, cut(nasty_ranking(), 0.5))
    kept, dropped = drawn.split('class="context dropped"')
    assert [f'data-sentence="{i}"' in kept for i in range(3)] == [True, True, False]
    assert [f'data-sentence="{i}"' in dropped for i in range(3)] == [False, False, True]
    assert "The evidence is dropped: what is kept does not say" in drawn
    assert "before the question is known" in drawn
    assert "<script>" not in drawn


def test_evidence_that_is_dropped_is_a_warning() -> None:
    both = report(part(evidence=(1, 2)))
    assert "1 of the 2 sentences of the evidence are dropped." in drawn_cut(both, cut(nasty_ranking(), 0.5))
    everything = drawn_cut(both, cut(nasty_ranking(), 1.0))
    assert "All of the evidence is kept." in everything
    assert 'class="note"' not in everything


def test_three_answers_with_tokens_and_seconds() -> None:
    reading = FromKept(NASTY, 2, 34, 0.5, 1.25)
    drawn = drawn_comparison(report(), Comparison(reading, None, reading, finished=False))
    assert "<script>" not in drawn
    assert drawn.count(">34<") == 2
    assert drawn.count(">1.25<") == 2
    assert "…" in drawn


def test_claims_by_verdict() -> None:
    everything = drawn_claims(claims(), {"chains/fig.svg": "<svg/>"})
    assert "Of 3 claims 1 does not hold, 2 hold." in everything
    assert everything.count('class="claim"') == 3
    assert everything.count("data:image/svg+xml;base64,") == 1
    assert "<b>2" not in everything
    assert everything.index("<b>C") < everything.index("<b>B"), "what fails stands first"
    failed = drawn_claims(claims(), {"chains/fig.svg": "<svg/>"}, "does not hold")
    assert failed.count('class="claim"') == 1
    assert "Chains" not in failed
    assert verdicts(claims()) == ["does not hold", "holds"]
