"""The routing experiment end to end on untrained teachers."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from keepset import seeds
from keepset.paper import routing
from keepset.paper.claim import FAILS, HOLDS, OPEN
from keepset.paper.dense import evaluation_batch
from keepset.paper.experiment import run_missing
from keepset.paper.pooling import EXAMPLES, STEPS, TABLE, covered_metrics, train_arm
from keepset.paper.report import made
from keepset.paper.result import RunResult
from keepset.paper.results import Results
from keepset.paper.router_tables import label_table
from keepset.paper.routing.claims import single_record_claims, transfer_claims
from keepset.paper.routing.run import ARMS, CONDITIONS, jobs
from keepset.paper.routing.tables import transferred
from keepset.paper.statistics import share
from keepset.paper.teachers import RECORDS, teacher_folder
from keepset.paper.testbed.routers import Router, build_router, score_blocks
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
        for arm in ("dense", "random", "annotated"):
            unrouted = results.select("routed", arm=arm, condition=condition)
            assert list(unrouted["teacher"]) == [0, 1]
            assert unrouted["source"].isna().all()
            assert unrouted["router_seed"].isna().all()
    model, config = load_teacher(teacher_folder("smoke", RECORDS, 1))
    dense = accuracy(model, evaluation_batch(config, "unique_2x", 6)).float().mean()
    assert results.value("routed", arm="dense", teacher=1, condition="unique_2x") == pytest.approx(float(dense))
    assert made_names(results) == [
        "tab-routing",
        "tab-app-routing",
        "tab-app-own-teacher",
        "tab-app-transfer",
        "routing-kept",
        "fig-gap",
    ]
    (table,) = made(routing.EXPERIMENT.reports[0], routing.EXPERIMENT, results)
    assert "mean over two teachers and two router seeds" in table.caption
    assert table.notes == (
        "n = 6 examples per teacher and condition; 2 teachers, 2 router seeds; contexts of 9, 18 and 36 blocks.",
    )
    one_source = Results({name: run for name, run in found.items() if run.at.get("source") != 1})
    assert made_names(one_source) == ["tab-routing", "tab-app-routing", "routing-kept", "fig-gap"], (
        "the others need every source"
    )


def test_an_arm_alone_gives_what_it_gave_beside_the_other(untrained: Path) -> None:
    model, config = load_teacher(teacher_folder("smoke", RECORDS, 0))
    labels = {arm: label for arm, (_, label) in ARMS.items()}
    with torch.no_grad():
        table = label_table(model, config, MIXTURES[RECORDS], TABLE["smoke"], labels)
    together = train_routers(
        lambda seed: build_router("pooling", config.vocabulary, config.block_width, seed),
        range(2),
        {arm: loss for arm, (loss, _) in ARMS.items()},
        table_stream(table.tokens, table.targets, run=0),
        steps=STEPS["smoke"],
    )
    batch = evaluation_batch(config, "unique", 8)
    for arm, (loss, label) in ARMS.items():
        alone = train_arm("smoke", RECORDS, 0, loss, label, router_seeds=2, steps=STEPS["smoke"])
        for one, other in zip(alone, together[arm], strict=True):
            torch.testing.assert_close(score_blocks(one, batch), score_blocks(other, batch), rtol=1e-3, atol=1e-3)


def test_evidence_is_covered_when_a_whole_set_is_kept(untrained: Path) -> None:
    config = load_teacher(teacher_folder("smoke", RECORDS, 0))[1]
    batch = evaluation_batch(config, "duplicate", EXAMPLES["smoke"])

    class Scores(Router):
        """Says what it was told of each example, whatever the tokens."""

        def __init__(self, scores: torch.Tensor) -> None:
            super().__init__(config.vocabulary, config.block_width)
            self.scores = torch.nn.Parameter(scores)

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            return self.scores

    last_copy = batch.family[:, -1].float()
    neither = -batch.family.any(1).float()
    half = torch.where(torch.arange(len(batch)).unsqueeze(1) < len(batch) // 2, last_copy, neither)
    found = covered_metrics("smoke", RECORDS, 0, ["duplicate"], [Scores(each) for each in (last_copy, neither, half)])
    assert [metric.value for metric in found] == [1.0, 0.0, 0.5]


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
    assert by_seed == pytest.approx((0.025 + 0.025) / 2), "0.725 and 0.775; 0.80 and 0.75: means over sources"


def both_arms(gap: Callable[[int, int], int]) -> Results:
    """Five teachers and five routers: imitation at 50 of 100, causal ``gap(teacher, router)`` above."""
    return routed(
        {
            (0, arm, teacher, seed): 50 + (gap(teacher, seed) if arm == "causal" else 0)
            for arm in ("causal", "imitation")
            for teacher in range(5)
            for seed in range(5)
        }
    )


@pytest.mark.parametrize(
    ("gap", "verdict"),
    [
        (lambda teacher, seed: 30 + teacher + seed, HOLDS),
        (lambda teacher, seed: -30 - teacher - seed, FAILS),
        (lambda teacher, seed: 3 + teacher + seed, OPEN),  # all of them ahead, on a hundred examples
        (lambda teacher, seed: 30, OPEN),  # five identical differences are one observation
        (lambda teacher, seed: 30 + seed, OPEN),  # five routers, whichever teacher they route
    ],
)
def test_an_ordering_is_told_over_teachers_routers_and_examples(gap: Callable[[int, int], int], verdict: str) -> None:
    claims = {claim.claim: claim for claim in single_record_claims(both_arms(gap))}
    assert len(claims) == len(CONDITIONS), "one source has neither own labels nor transfer"
    for claim in ("Unique retrieval: causal at least imitation", "Unique, 4× length: causal ahead of imitation"):
        assert claims[claim].verdict == verdict
    assert ("different" in claims[claim].n) == (gap(0, 0) == gap(1, 0))


def test_transfer_compares_spreads_of_means_on_both_sides() -> None:
    def by(source: int, seed: int) -> Results:
        return routed(
            {
                (s, arm, teacher, r): 50 + source * s + seed * r
                for arm in ("causal", "imitation")
                for s in range(5)
                for teacher in range(5)
                for r in range(5)
            }
        )

    def verdicts(results: Results) -> list[str]:
        return [claim.verdict for claim in transfer_claims(results)]

    assert verdicts(by(source=8, seed=1)) == [HOLDS, FAILS], "eight times the spread"
    assert verdicts(by(source=1, seed=8)) == [FAILS, HOLDS]
    assert verdicts(by(source=2, seed=1)) == [OPEN, OPEN], "five against five tell no factor of two"
    assert verdicts(by(source=1, seed=0)) == [OPEN, OPEN], "no spread to compare with"
    own = [claim for claim in single_record_claims(by(8, 1)) if "own labels" in claim.claim]
    assert len(own) == 4
