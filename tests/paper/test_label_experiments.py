"""The label experiments end to end on untrained teachers: what they write, and the tables that read it."""

from pathlib import Path

import pytest
import torch

from keepset.paper import agreement, minimality, recovery, redundant, temperature
from keepset.paper.agreement.run import LABELS, between_teachers
from keepset.paper.experiment import Experiment, Jobs, run_missing
from keepset.paper.labelled import Labelled
from keepset.paper.report import made
from keepset.paper.results import Results, read_results
from keepset.paper.table import Figure, Table
from keepset.paper.teachers import MULTIHOP
from keepset.paper.testbed.tasks.oracle import read_query, read_records
from keepset.paper.testbed.teachers.presets import smoke
from keepset.paper.testbed.teachers.teacher import build_teacher, save_teacher

pytestmark = pytest.mark.long

EXPERIMENTS: tuple[Experiment, ...] = tuple(
    module.EXPERIMENT for module in (agreement, minimality, recovery, temperature, redundant)
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    for mixture in ("paper-records", "single-hop", "paper-sizes", "hardened-pointers-first"):
        for seed in range(2):
            config = smoke(mixture, seed)
            mixing = config.architecture.model_copy(
                update={"zero_output_projections": False}
            )  # else nothing has effects
            config = config.model_copy(update={"architecture": mixing})
            save_teacher(build_teacher(config), config, folder / "teachers" / "smoke" / f"{mixture}-{seed}")
    return folder


@pytest.fixture(scope="module")
def results(root: Path) -> Results:
    """Every label experiment at smoke size, read back from where it was saved."""
    jobs: Jobs = {}
    for experiment in EXPERIMENTS:
        jobs |= experiment.jobs("smoke")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        assert len(list(run_missing(jobs, root / "results", "smoke"))) == 2 * 5 + 2 + 4 + 1 + 3 * 4
        assert not list(run_missing(jobs, root / "results", "smoke")), "what is there does not run again"
    return read_results(root / "results", "smoke")


def rendered(results: Results) -> dict[str, str]:
    items: list[Table | Figure] = []
    for experiment in EXPERIMENTS:
        for report in experiment.reports:
            items += made(report, experiment, results)
    return {item.name: item.markdown() if isinstance(item, Table) else item.svg for item in items}


def test_every_experiment_writes_what_its_tables_read(results: Results) -> None:
    found = rendered(results)
    assert list(found) == [
        "tab-agreement",
        "tab-app-agreement",
        "fig-redundancy",
        "stale-attention",
        "agreement-starts",
        "minimality",
        "tab-recovered",
        "tab-temperature",
        "tab-redundant",
        "families",
    ]
    assert found == rendered(Results(results.runs)), "the same bytes every time"


def test_captions_speak_of_the_runs_they_show(results: Results) -> None:
    found = rendered(results)
    n_blocks = smoke("paper-records", 0).n_blocks
    assert "over one pairs of paper-records teachers" in found["tab-agreement"]
    assert f"of N = {n_blocks} blocks." in found["tab-agreement"]
    assert f"n = 20 per teacher, contexts of {n_blocks} blocks" in found["stale-attention"]
    assert "2 teachers, 24 examples each" in found["tab-recovered"]
    assert "n = 6; greedy on the first 3" in found["tab-redundant"]


def test_no_number_stands_twice_at_one_place(results: Results) -> None:
    coordinates = [name for name in results.frame.columns if name not in ("value", "n", "low", "high", "each", "file")]
    assert not results.frame[coordinates].astype(str).duplicated().any()


def test_differences_can_be_told_from_the_results(results: Results) -> None:
    told = [d.here(results.of(e.name, *d.needs)) for e in EXPERIMENTS for d in e.differences]
    assert told, "recovery has one"
    assert all(told)


def test_agreement_is_over_pairs_of_teachers(results: Results) -> None:
    found = results.of("agreement").where(mixture="paper-records")
    for label in LABELS:
        at = {"condition": "unique", "label": label}
        pair = found.metric("jaccard", **at, teacher=0, other_teacher=1)
        mean = found.metric("mean_jaccard", **at)
        assert (mean.value, mean.n, pair.n) == (pair.value, 1, 20)
    assert 1 <= found.value("size", condition="unique", label="adaptive", teacher=0) <= 9
    holding = found.select("holds_obsolete")
    assert set(holding["condition"]) == {"latest_write"}, "other conditions have no obsolete write"
    assert sorted(zip(holding["teacher"], holding["label"], strict=True)) == [
        (0, "adaptive"),
        (0, "causal"),
        (1, "adaptive"),
        (1, "causal"),
    ]


def test_the_mean_over_pairs_is_of_all_pairs() -> None:
    sets = {
        0: torch.tensor([[True, False, False]]),
        1: torch.tensor([[True, True, False]]),
        2: torch.tensor([[False, False, True]]),
    }
    *pairs, mean = between_teachers("causal", sets)
    assert [(m.at["teacher"], m.at["other_teacher"], m.value) for m in pairs] == [(0, 1, 0.5), (0, 2, 0.0), (1, 2, 0.0)]
    assert (mean.what, mean.at, mean.n) == ("mean_jaccard", {"label": "causal"}, 3)
    assert mean.value == pytest.approx(1 / 6)


def test_records_count_along_the_chain_from_the_queried_one(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    subject = Labelled.load("smoke", "paper-sizes", 1, "multihop_pointers_first", 200)
    vocabulary = subject.config.vocabulary
    solved = subject.effects.clean_correct.nonzero().flatten().tolist()
    flips = 0
    for i in solved:
        example = subject.effects.probe.examples[i]
        asked = read_query(example.tokens, example.query, vocabulary)
        records = read_records(example.tokens, example.blocks, vocabulary)
        (queried,) = (b for b, record in enumerate(records) if record and record.key == asked)
        flips += bool(subject.effects.flip[i, queried])
    first, second, value = minimality.hiding_flips(subject, solved)
    assert (first.at, value.at) == ({"record": 0}, {"record": 2})
    assert first.value == flips / len(solved)
    assert first.value != second.value, "else the order would not show"


def test_temperature_one_is_identical_to_itself(results: Results) -> None:
    found = results.of("temperature")
    assert found.value("identical_to_temperature_1", temperature=1.0) == 1.0
    assert found.value("median_max_drop", temperature=0.5) > found.value("median_max_drop", temperature=4.0)


def test_the_sweep_has_the_estimators_own_floor(results: Results) -> None:
    found = results.of("recovery")
    for condition in (recovery.ALL, *recovery.CONDITIONS):
        at = {"teacher": 0, "condition": condition}
        for what in ("match", "cover"):
            swept = found.value(what, **at, floor=found.run().config["floor"])
            assert swept == found.value(what, **at, estimator="floored")
    for teacher in (0, 1):
        chains = {"teacher": teacher, "condition": MULTIHOP}
        swept = found.value("cover", **chains, low_floor=found.run().config["floor"])
        assert swept == found.value("cover", **chains, estimator="floored")
    assert set(found.select("cover", low_floor=recovery.LOW_FLOORS[0])["condition"]) == {MULTIHOP}


def test_the_mixture_is_its_conditions_together(results: Results) -> None:
    found = results.of("recovery")
    for estimator in recovery.TITLES:
        parts = [found.metric("cover", teacher=1, estimator=estimator, condition=c) for c in recovery.CONDITIONS]
        whole = found.metric("cover", teacher=1, estimator=estimator, condition=recovery.ALL)
        assert whole.n == sum(part.n for part in parts)
        assert whole.value * whole.n == pytest.approx(sum(part.value * part.n for part in parts))


def test_a_search_has_a_result_of_its_own(results: Results) -> None:
    labels = results.of("redundant").frame.groupby("file")["label"].agg(lambda column: sorted(set(column.dropna())))
    assert labels["redundant/paper-sizes-0-labels"] == ["attention", "floored", "greedy"]
    assert labels["redundant/paper-sizes-0-masked"] == ["masked"]
    assert labels["redundant/paper-sizes-0-nonce"] == ["confirmed", "nonce"]
    at = {"mixture": "hardened-pointers-first", "teacher": 1}
    nonce, confirmed = (results.of("redundant").value("tokens", label=label, **at) for label in ("nonce", "confirmed"))
    assert confirmed >= nonce > 0


def test_claims_about_two_chains_keep_teachers_that_follow_apart(results: Results) -> None:
    *labels, found, found_by_following = redundant.redundant_claims(results.of("redundant"))
    assert [claim.n for claim in labels] == [
        f"2 teachers × {n} examples"
        for n in (*[redundant.EXAMPLES["smoke"]] * 2, redundant.SEARCHED["smoke"], redundant.EXAMPLES["smoke"])
    ]
    assert found.claim.endswith("on every teacher")
    assert found_by_following.claim.endswith("on every teacher that follows chains")
    one_kind = {name: run for name, run in results.of("redundant").runs.items() if "hardened" not in name}
    assert len(redundant.redundant_claims(Results(one_kind))) == len(labels) + 1


def test_obsolete_writes_share_the_queried_key(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    subject = Labelled.load("smoke", "single-hop", 0, "latest_write", 12)
    assert not (subject.obsolete & subject.known).any()
    assert subject.obsolete.sum(1).tolist() == [2] * 12
    assert not Labelled.load("smoke", "single-hop", 0, "unique", 4).obsolete.any()
