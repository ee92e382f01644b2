"""The whole report: one table alone, another scale, and what a run that was stopped leaves."""

from pathlib import Path

import pytest

from keepset.paper.report import SECTIONS, index, render_one, render_reports
from keepset.paper.results import Results

ROOT = Path(__file__).parents[2]


def test_one_table_is_rendered_by_the_papers_label_and_by_its_name(tracked: Results) -> None:
    needed = tracked.of("chains", "oracles")
    page = (ROOT / "docs" / "results" / "chains" / "tab-chain.md").read_text(encoding="utf-8")
    assert render_one("tab:chain", needed) == render_one("tab-chain", needed) == page
    with pytest.raises(ValueError, match=r"unknown table or figure 'tab:chian'; expected one of .*tab:chain"):
        render_one("tab:chian", needed)
    with pytest.raises(ValueError, match="tab:ablation: its results are not there yet; 'keepset reproduce tab:ab"):
        render_one("tab:ablation", needed)


def test_another_scale_is_reported_as_what_it_is(tracked: Results) -> None:
    """The numbers of ``small`` under another name: nothing but the name may say where they are from."""
    runs = tracked.of("ablation").runs
    other = Results({name: run.model_copy(update={"scale": "paper"}) for name, run in runs.items()})
    rendered = render_reports(other)
    assert "Paper scale; n = " in rendered["results/routing/tab-ablation.md"]
    assert "`paper` throughout." in rendered["results/README.md"]
    assert "not looked into at this scale" in rendered["results/README.md"]
    assert "`results/paper/ablation/`" in rendered["paper-map.md"]
    tables = [text for name, text in rendered.items() if Path(name).parent.name in SECTIONS]
    assert len(tables) == 2
    assert not any("small" in text.lower() for text in [*tables, rendered["results/README.md"]])
    assert "results/small" not in rendered["paper-map.md"]


@pytest.mark.parametrize(
    ("stopped_before", "missed"), [("ablation/causal", "claims of ablation"), ("ablation/unrouted", "tab:ablation, ")]
)
def test_a_missing_number_is_said_wherever_it_is_missed(tracked: Results, stopped_before: str, missed: str) -> None:
    """No table, claim or difference is left out because some of its runs are not there."""
    runs = tracked.of("ablation").runs
    halfway = Results({name: run for name, run in runs.items() if not name.startswith(stopped_before)})
    makes_the_rest = "a run was stopped halfway: 'keepset reproduce ablation' makes the rest"
    with pytest.raises(ValueError, match=f"tab:ablation: .*{makes_the_rest}"):
        render_reports(halfway)
    with pytest.raises(ValueError, match=f"{missed}.*{makes_the_rest}"):
        index(halfway, {})


def test_a_run_that_was_stopped_halfway_is_in_nobody_elses_way(tracked: Results) -> None:
    runs = tracked.of("ablation", "oracles", "chains").runs
    halfway = Results({name: run for name, run in runs.items() if not name.startswith("ablation/unrouted")})
    assert render_one("tab-chain", halfway)
    for asked in ("tab:ablation", "tab-ablation"):
        with pytest.raises(ValueError, match=r"tab:ablation.*a run was stopped halfway"):
            render_one(asked, halfway)
