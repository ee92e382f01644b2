"""The routing experiment end to end on untrained teachers."""

from pathlib import Path

import pytest
import torch

from keepset import seeds
from keepset.paper import routing
from keepset.paper.claim import FAILS, HOLDS, OPEN
from keepset.paper.dense import evaluation_batch
from keepset.paper.experiment import run_missing
from keepset.paper.pooling import STEPS, TABLE, train_arm
from keepset.paper.report import made
from keepset.paper.result import RunResult
from keepset.paper.results import Results
from keepset.paper.router_tables import label_table
from keepset.paper.routing.run import ARMS, CONDITIONS, jobs
from keepset.paper.routing.tables import transferred
from keepset.paper.statistics import share
from keepset.paper.teachers import teacher_folder
from keepset.paper.testbed.routers import build_router, score_blocks
from keepset.paper.testbed.teachers.presets import MIXTURES
from keepset.paper.testbed.teachers.teacher import accuracy, load_teacher
from keepset.routers import table_stream, train_routers


def made_names(results: Results) -> list[str]:
    return [item.name for report in routing.EXPERIMENT.reports for item in made(report, routing.EXPERIMENT, results)]


def test_every_source_and_arm_routes_every_teacher(untrained: Path) -> None:
    found = dict(run_missing(jobs("smoke"), untrained / "results", "smoke"))
    arms = [f"routing/source-{source}-{arm}" for source in (0, 1) for arm in ("imitation", "causal")]
    assert list(found) == ["routing/unrouted", *arms]
    for name in arms:
        source = int(found[name].at["source"])
        assert found[name].seeds["router_stream"] == seeds.ROUTER_STREAM.seed(source), "each source has its own order"
    results = Results(found)
    for condition in CONDITIONS:
        for arm in ("imitation", "causal"):
            routed = results.select("routed", arm=arm, condition=condition)
            places = {tuple(row) for row in routed[["source", "teacher", "router_seed"]].to_numpy()}
            assert places == {(source, teacher, seed) for source in (0, 1) for teacher in (0, 1) for seed in (0, 1)}
        for arm in ("dense", "random"):
            unrouted = results.select("routed", arm=arm, condition=condition)
            assert list(unrouted["teacher"]) == [0, 1]
            assert unrouted["source"].isna().all()
            assert unrouted["router_seed"].isna().all()
    model, config = load_teacher(teacher_folder("smoke", "single-hop", 1))
    dense = accuracy(model, evaluation_batch(config, "unique_2x", 6)).float().mean()
    assert results.value("routed", arm="dense", teacher=1, condition="unique_2x") == pytest.approx(float(dense))
    assert made_names(results) == [
        "tab-routing",
        "tab-app-routing",
        "tab-app-own-teacher",
        "tab-app-transfer",
        "fig-gap",
    ]
    (table,) = made(routing.EXPERIMENT.reports[0], routing.EXPERIMENT, results)
    assert "mean over two teachers and two router seeds" in table.caption
    assert table.notes == (
        "n = 6 examples per teacher and condition; 2 teachers, 2 router seeds; contexts of 9, 18 and 36 blocks.",
    )
    one_source = Results({name: run for name, run in found.items() if run.at.get("source") != 1})
    assert made_names(one_source) == ["tab-routing", "tab-app-routing", "fig-gap"], "the others need every source"


def test_an_arm_alone_gives_what_it_gave_beside_the_other(untrained: Path) -> None:
    model, config = load_teacher(teacher_folder("smoke", "single-hop", 0))
    labels = {arm: label for arm, (_, label) in ARMS.items()}
    with torch.no_grad():
        table = label_table(model, config, MIXTURES["single-hop"], TABLE["smoke"], labels)
    together = train_routers(
        lambda seed: build_router("pooling", config.vocabulary, config.block_width, seed),
        range(2),
        {arm: loss for arm, (loss, _) in ARMS.items()},
        table_stream(table.tokens, table.targets, run=0),
        steps=STEPS["smoke"],
    )
    batch = evaluation_batch(config, "unique", 8)
    for arm, (loss, label) in ARMS.items():
        alone = train_arm("smoke", "single-hop", 0, loss, label, router_seeds=2, steps=STEPS["smoke"])
        for one, other in zip(alone, together[arm], strict=True):
            torch.testing.assert_close(score_blocks(one, batch), score_blocks(other, batch), rtol=1e-3, atol=1e-3)


def routed(scores: dict[tuple[int, str, int, int], int]) -> Results:
    """Source, arm, teacher, router seed -> how many of 100 are right, the same on every condition."""
    runs = {}
    for i, ((source, arm, teacher, seed), right) in enumerate(scores.items()):
        at = {"teacher": teacher, "router_seed": seed}
        runs[str(i)] = RunResult(
            experiment="routing",
            scale="small",
            at={"source": source, "arm": arm},
            command="keepset x",
            config={},
            seeds={},
            commit="0" * 40,
            versions={},
            counts={},
            seconds=1.0,
            metrics=tuple(share("routed", right, 100, condition=condition, **at) for condition in CONDITIONS),
        )
    return Results(runs)


def test_own_and_other_sources_and_their_spreads() -> None:
    right = {(0, 0): (50, 60), (0, 1): (70, 70), (1, 0): (95, 95), (1, 1): (90, 80)}  # (source, teacher) -> by seed
    results = routed({(s, "causal", t, seed): n for (s, t), both in right.items() for seed, n in enumerate(both)})
    own, other, by_source, by_seed = transferred(results, "causal", "unique")
    assert own == pytest.approx((0.55 + 0.85) / 2)
    assert other == pytest.approx((0.70 + 0.95) / 2)
    assert by_source == pytest.approx((0.20 + 0.075) / 2), "0.55 and 0.95; 0.70 and 0.85"
    assert by_seed == pytest.approx((0.05 + 0.0 + 0.0 + 0.05) / 4)


@pytest.mark.parametrize(
    ("causal", "plain", "shifted"), [((60, 70), HOLDS, HOLDS), ((50, 60), HOLDS, OPEN), ((40, 50), FAILS, FAILS)]
)
def test_under_length_shift_causal_has_to_be_ahead(causal: tuple[int, int], plain: str, shifted: str) -> None:
    by_arm = {"causal": causal, "imitation": (50, 60)}
    results = routed({(0, arm, teacher, 0): n for arm, both in by_arm.items() for teacher, n in enumerate(both)})
    verdicts = {claim.claim: claim.verdict for claim in routing.single_record_claims(results)}
    assert verdicts["Unique retrieval: causal at least imitation"] == plain
    assert verdicts["Unique, 4× length: causal ahead of imitation"] == shifted
    assert len(verdicts) == len(CONDITIONS)
