"""Chain experiments end to end on untrained teachers: every number a report asks for is there."""

from collections.abc import Sequence
from contextlib import chdir
from pathlib import Path

import pytest
import torch

from keepset.labels import FoundFamily
from keepset.paper import (
    chain_routers,
    chains,
    family_routing,
    hardened,
    hardened_routers,
    oracles,
    recovered_routing,
    trace_choices,
    training_problem,
)
from keepset.paper.claim import FAILS, HOLDS, NOT_TESTED, OPEN
from keepset.paper.experiment import Experiment, run_missing, run_result
from keepset.paper.labelled import Labelled
from keepset.paper.report import made
from keepset.paper.result import RunResult
from keepset.paper.results import Results
from keepset.paper.statistics import share
from keepset.paper.table import Table
from keepset.paper.teachers import MULTIHOP, teacher_seeds
from keepset.paper.testbed.routers import build_router, renamed_stream, router_input, score_blocks
from keepset.paper.testbed.tasks import sample_condition
from keepset.paper.testbed.tasks.oracle import read_records
from keepset.paper.testbed.teachers.presets import smoke
from keepset.readouts import backward_trace
from keepset.routers import table_stream, train_routers

pytestmark = pytest.mark.long


def run(folder: Path, *experiments: Experiment) -> Results:
    found: dict[str, RunResult] = {}
    for experiment in experiments:
        found |= dict(run_missing(experiment.jobs("smoke"), folder / "results", "smoke"))
    return Results(found)


def tables(experiment: Experiment, results: Results) -> dict[str, Table]:
    found = [item for report in experiment.reports for item in made(report, experiment, results)]
    return {item.name: item for item in found if isinstance(item, Table)}


@pytest.fixture(scope="module")
def chain_results(untrained_teachers: Path, tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Everything that ``tab:chain`` and its like read, run once."""
    with chdir(untrained_teachers):
        return run(tmp_path_factory.mktemp("chains"), oracles.EXPERIMENT, chains.EXPERIMENT, hardened.EXPERIMENT)


def test_every_arm_is_a_run_of_its_own(chain_results: Results) -> None:
    results = chain_results.of("chains")
    arms = ("unrouted", *chains.ARMS)
    assert list(results.runs) == [f"chains/paper-sizes-{teacher}-{arm}" for arm in arms for teacher in (0, 1)]
    for arm in chains.ARMS:
        at = {"arm": arm, "teacher": 1, "condition": MULTIHOP, "k": 3}
        assert len(results.values("routed", **at)) == len(results.values("chain_recall", **at)) == 2
        for record in range(3):
            assert list(results.select("recall", record=record, **at)["router_seed"]) == [0, 1]
    for arm in ("dense", "random"):
        assert results.metric("routed", arm=arm, teacher=0, condition=MULTIHOP).n == chains.EXAMPLES["smoke"]


def test_every_training_problem_is_measured_on_chains_of_its_own_order(untrained: Path, tmp_path: Path) -> None:
    experiment = training_problem.EXPERIMENT
    results = run(tmp_path, experiment)
    for mixture, problem in training_problem.PROBLEMS.items():
        teachers = list(teacher_seeds("smoke", mixture))
        assert training_problem.teachers_of(results, mixture) == teachers
        assert {run.config["condition"] for run in results.runs.values() if run.at["mixture"] == mixture} == {
            problem.condition
        }
        for record in range(3):
            assert results.value("recall", mixture=mixture, teacher=teachers[0], arm="annotated", record=record) == 1
    (table,) = tables(experiment, results).values()
    assert [row[1] for row in table.rows if row] == [
        *("paper-sizes-0", "paper-sizes-1", "range of 2"),
        *("pointers-first-0", "pointers-first-1", "range of 2"),
        *("paper-chains-0", "paper-chains-2", "range of 2"),
        *("paper-chains-long-2", "five-task-0", "five-task-1", "range of 2"),
        *(
            "hardened-pointers-first-0",
            "hardened-pointers-first-1",
            "range of 2",
            "hardened-0",
            "hardened-1",
            "range of 2",
            "range of 4",
        ),
    ]


def measured(attention: tuple[int, ...], chain_alone: tuple[int, ...]) -> Results:
    """Teachers of the paper's problem, 100 examples each, that differ in attention and in whether a chain is enough."""
    runs = {}
    for teacher, (attended, alone) in enumerate(zip(attention, chain_alone, strict=True)):
        arms = dict.fromkeys(training_problem.COLUMNS, 100) | {"attention_max": attended, "annotated": alone}
        metrics = [share("routed", right, 100, arm=arm, layer=0) for arm, right in arms.items()]
        metrics += [share("recall", (100, attended, 100)[i], 100, arm="attention_max", record=i) for i in range(3)]
        runs[f"training_problem/{teacher}"] = run_result(
            "training_problem",
            "small",
            0.0,
            at={"mixture": training_problem.FIVE_TASK, "teacher": teacher},
            config={"n_blocks": 16},
            seeds={},
            counts={"examples": 100},
            metrics=metrics,
        )
    return Results(runs)


def test_claims_on_the_papers_chains_are_told_from_each_teacher() -> None:
    differs, ends, alone, *_ = training_problem.problem_claims(measured((20, 90), (100, 100)))
    assert (differs.verdict, ends.verdict, alone.verdict) == (HOLDS, HOLDS, HOLDS)
    alike, middle, one_leans_on_others, *_ = training_problem.problem_claims(measured((50, 52), (100, 30)))
    assert (alike.verdict, middle.verdict, one_leans_on_others.verdict) == (OPEN, OPEN, FAILS)
    assert alike.own_choice == NOT_TESTED
    close, middle, *_ = training_problem.problem_claims(measured((1, 12), (100, 100)))
    assert (close.verdict, middle.verdict) == (OPEN, OPEN), "two that are alike say little of other teachers"


def test_an_arm_alone_gives_what_it_gave_beside_others(untrained: Path) -> None:
    config = smoke("five-task", 0)
    batch = sample_condition("multihop", 5, 8, config.n_blocks, config.block_width, config.vocabulary)
    model, _ = chain_routers.load_teacher(chain_routers.teacher_folder("smoke", "five-task", 0))
    labels = {arm: label for arm, (_, label) in chain_routers.ARMS.items()}
    with torch.no_grad():
        table = chain_routers.label_table(model, config, {"multihop": 1.0}, chain_routers.TABLE["smoke"], labels)
    together = train_routers(
        lambda seed: build_router("chain", config.vocabulary, config.block_width, seed),
        range(2),
        {arm: loss for arm, (loss, _) in chain_routers.ARMS.items()},
        table_stream(table.tokens, table.targets, run=0, batch=chain_routers.BATCH["smoke"]),
        steps=chain_routers.STEPS["smoke"],
    )
    alone = chain_routers.train("smoke", "five-task", 0, "multihop", "trace")
    for one, other in zip(alone, together["trace"], strict=True):
        torch.testing.assert_close(score_blocks(one, batch), score_blocks(other, batch), rtol=1e-3, atol=1e-3)


def test_hardened_chains_route_every_teacher(chain_results: Results) -> None:
    results = chain_results.of("hardened")
    assert list(results.runs) == ["hardened/unrouted", *(f"hardened/labels-0-{arm}" for arm in hardened.ARMS)]
    for mixture in hardened.ROUTED:
        for teacher in (0, 1):
            at = {"mixture": mixture, "teacher": teacher}
            assert 0 <= results.value("routed", arm="dense", condition=hardened.THREE_HOPS, **at) <= 1
            assert results.metric("routed", arm="causal", condition="multihop_hardened", router_seed=1, k=3, **at)
    last = results.metric(
        "recall",
        arm="causal",
        condition=hardened.THREE_HOPS,
        k=4,
        record=3,
        router_seed=0,
        mixture="hardened-pointers-first",
        teacher=0,
    )
    assert last.n == hardened.EXAMPLES["smoke"]
    table = tables(hardened.EXPERIMENT, results)["hardened-chains"]
    assert [row[1] for row in table.rows if row] == 2 * [
        f"{mixture}-{teacher}" for mixture in ("hardened-pointers-first", "pointers-first") for teacher in (0, 1)
    ]
    assert {row[0] for row in table.rows if row} == {"multihop_hardened, k = 3", "multihop_3hop_pointers_first, k = 4"}
    assert table.notes[0].endswith("; smoke scale")


def test_oracles(chain_results: Results) -> None:
    results = chain_results.of("oracles")
    assert list(results.runs) == ["oracles/paper-sizes-0", "oracles/paper-sizes-1"]
    for arm in oracles.SELECTIONS:
        assert list(results.select("routed", arm=arm, teacher=0)["k"]) == list(oracles.BUDGETS)
    assert results.metric("routed", arm="attention_layer", layer=0, k=3, teacher=0)
    assert results.value("obsolete", arm="annotated", teacher=0) == 0
    assert len(results.values("obsolete", arm="trace", condition="latest_write")) == 2


def test_reports_of_chains(chain_results: Results) -> None:
    assert set(tables(oracles.EXPERIMENT, chain_results)) == {"tab-budget-readouts"}
    found = tables(chains.EXPERIMENT, chain_results)
    assert set(found) == {"tab-chain", "tab-chain-per-teacher", "tab-trace-supervision"}
    assert [row[0] for row in found["tab-chain-per-teacher"].rows] == ["seed 0", "seed 1"]
    note = "2 paper-sizes teachers; 6 examples, 2 router seeds, 128 labelled examples, 10 steps of 16; smoke scale"
    assert found["tab-chain"].notes == (note,)
    assert set(tables(chains.EXPERIMENT, chain_results.of("chains"))) == {"tab-chain-per-teacher"}, "others need more"
    for experiment in (oracles.EXPERIMENT, chains.EXPERIMENT, hardened.EXPERIMENT):
        for difference in experiment.differences:
            assert difference.here(chain_results.of(experiment.name, *difference.needs))


def chain_runs(
    dense: float, causal: float, attention: float, pointer: float, routers: int = 10, traced: Sequence[int] = ()
) -> dict[str, RunResult]:
    """Two teachers of a hundred examples and some routers each, alike but for a tenth more attention in the second."""
    runs = {}
    for teacher in (0, 1):
        shift = 0.1 * teacher
        for arm in ("unrouted", "attention", "causal", *["trace"] * (teacher in traced)):
            here = [share("routed", round(100 * dense), 100, arm="dense")] if arm == "unrouted" else []
            for seed in range(routers) if arm != "unrouted" else ():
                right = causal if arm == "causal" else attention + shift + 0.01 * (seed % 2)
                here.append(share("routed", round(100 * right), 100, router_seed=seed))
                for record, kept in enumerate((1.0, pointer + shift, 1.0)):
                    here.append(share("recall", round(100 * kept), 100, router_seed=seed, record=record))
            runs[f"{teacher}-{arm}"] = RunResult(
                experiment="chains",
                scale="small",
                at={"teacher": teacher} | ({} if arm == "unrouted" else {"arm": arm}),
                command="keepset x",
                config={"router_seeds": routers},
                seeds={},
                commit="0" * 40,
                versions={},
                counts={},
                seconds=1.0,
                metrics=tuple(here),
            )
    return runs


def test_claims_about_chains() -> None:
    verdicts = [c.verdict for c in chains.chain_claims(Results(chain_runs(1.0, 1.0, 0.3, 0.3)))]
    assert verdicts == [HOLDS, HOLDS, HOLDS]
    verdicts = [c.verdict for c in chains.chain_claims(Results(chain_runs(1.0, 1.0, 0.3, 0.3, routers=2)))]
    assert verdicts == [HOLDS, OPEN, OPEN], "a bar is for each router; four tell nothing of teachers"
    verdicts = [c.verdict for c in chains.chain_claims(Results(chain_runs(1.0, 0.5, 0.3, 0.3)))]
    assert verdicts[0] == FAILS
    _, traced, *_ = chains.chain_claims(Results(chain_runs(1.0, 1.0, 0.3, 0.3, traced=(0, 1))))
    assert (traced.claim.split(" at ")[0], traced.verdict) == ("Multi-hop: routers of the backward trace", FAILS)
    assert len(chains.chain_claims(Results(chain_runs(1.0, 1.0, 0.3, 0.3, traced=(0,))))) == 3, (
        "of every teacher or none"
    )
    assert chains.chain_claims(Results(chain_runs(0.5, 1.0, 0.3, 0.3))) == [], "no teacher has learned chains"


def test_recovered_labels_train_routers(untrained: Path) -> None:
    recovered_routing.estimated_table.cache_clear()
    results = run(untrained, recovered_routing.EXPERIMENT)
    assert [name.split("/")[1] for name in results.runs] == list(recovered_routing.ARMS)
    assert recovered_routing.estimated_table.cache_info().misses == 1, "one pass of effects serves all estimators"
    for estimator in recovered_routing.ARMS:
        for condition in ("unique", "latest_write", MULTIHOP):
            found = results.select("routed", estimator=estimator, condition=condition, teacher=0)
            assert list(found["router_seed"]) == [0, 1]
        assert list(results.select("chain_recall", estimator=estimator)["condition"]) == [MULTIHOP] * 2
    table = tables(recovered_routing.EXPERIMENT, results)["tab-recovered-routing"]
    assert sum(row[0].startswith("Top-k delta") for row in table.rows) == 2


@pytest.mark.parametrize("arm", ["saliency", "annotated"])
def test_labels_without_effects_are_not_paid_for_with_effects(untrained: Path, arm: str) -> None:
    recovered_routing.estimated_table.cache_clear()
    table = recovered_routing.labelled_table("smoke", arm)
    assert list(table.targets) == [arm]
    assert recovered_routing.estimated_table.cache_info().misses == 0


def test_an_estimator_that_has_not_run_is_said_to_be_missing(untrained: Path) -> None:
    experiment = recovered_routing.EXPERIMENT
    results = Results({"recovered_routing/annotated": experiment.jobs("smoke")["recovered_routing/annotated"]()})
    assert [difference.here(results) for difference in experiment.differences] == ["not run"] * 4
    assert [row[0] for row in tables(experiment, results)["tab-recovered-routing"].rows] == [
        "Annotated (not recovered)"
    ]


def test_families_train_routers(untrained: Path) -> None:
    family_routing.papers_table.cache_clear()
    results = run(untrained, family_routing.EXPERIMENT)
    assert [name.split("/")[1] for name in results.runs] == [*family_routing.ARMS, "random"]
    for label in family_routing.ARMS:
        for operator in ("mask", "nonce"):
            assert list(results.select("routed", label=label, operator=operator)["router_seed"]) == [0, 1]
        assert list(results.select("chain_recall", label=label)["router_seed"]) == [0, 1]
    assert results.metric("routed", label="random", operator="nonce").n == family_routing.EXAMPLES["smoke"]
    table = tables(family_routing.EXPERIMENT, results)["family-routing"]
    assert [row[0] for row in table.rows] == list(family_routing.TITLES.values())
    assert "three of 9 blocks" in table.caption


def test_a_family_becomes_its_smallest_sets() -> None:
    found = [
        FoundFamily(frozenset({frozenset({0, 1}), frozenset({2, 3}), frozenset({1, 2, 3})}), True, 9),
        FoundFamily(frozenset(), True, 1),
    ]
    target = family_routing.family_target(found, 4)
    assert target.tolist() == [[[True, True, False, False], [False, False, True, True]], [[False] * 4] * 2]


def test_renaming_keeps_the_structure_of_every_example() -> None:
    config = smoke("five-task", 0)
    batch = sample_condition("multihop", 5, 8, config.n_blocks, config.block_width, config.vocabulary)
    tokens = router_input(batch)
    plain = table_stream(tokens, {"arm": batch.family}, run=0, batch=8)
    renamed = renamed_stream(plain, config.vocabulary, run=0)
    before, targets = plain(3)
    after, same_targets = renamed(3)
    assert torch.equal(targets["arm"], same_targets["arm"])
    assert not torch.equal(before, after)
    assert torch.equal(after, renamed(3)[0])
    for old, new in zip(before, after, strict=True):
        pairs = set(zip(old.tolist(), new.tolist(), strict=True))
        assert len({a for a, _ in pairs}) == len({b for _, b in pairs}) == len(pairs), "a renaming is one to one"
        kinds = [
            [type(r.content) for r in read_records(row, batch.blocks, config.vocabulary) if r] for row in (old, new)
        ]
        assert kinds[0] == kinds[1], "pointers stay pointers"


def test_every_reading_of_the_trace_is_measured(untrained: Path, tmp_path: Path) -> None:
    experiment = trace_choices.EXPERIMENT
    results = run(tmp_path, experiment)
    names = [f"{mixture}-{teacher}" for mixture in trace_choices.MIXTURES for teacher in (0, 1)]
    assert list(results.runs) == [f"trace_choices/{name}" for name in names]
    for name in trace_choices.READINGS:
        for sample, n in trace_choices.EXAMPLES["smoke"].items():
            at = {"reading": name, "sample": sample, "mixture": trace_choices.SMALLER_FIVE_TASK, "teacher": 1}
            assert results.metric("routed", **at).n == n
    barred = results.values("first_block_intrudes", reading="strongest_token_no_first", sample="evaluation")
    assert barred == [0.0] * 4
    table = tables(experiment, results)["trace-choices"]
    assert len(table.rows) == len(trace_choices.READINGS)
    (claim,) = trace_choices.trace_claims(results)
    assert "mean over heads: " in claim.own_choice
    assert "the tables' reading on pointers-first teachers: " in claim.own_choice


def test_readings_of_the_trace_are_what_their_names_say(untrained: Path) -> None:
    subject = Labelled.load("smoke", "paper-sizes", 0, MULTIHOP, 4)
    tokens, blocks = subject.batch.first_query(), subject.batch.blocks
    scores = {name: reading.scores(subject.model, tokens, blocks) for name, reading in trace_choices.READINGS.items()}
    torch.testing.assert_close(scores["strongest_token"], backward_trace(subject.model, tokens, blocks))
    assert bool((scores["summed"] >= scores["strongest_token"]).all())
    assert bool((scores["stay_attended"] <= scores["summed"] + 1e-6).all()), "staying for free is never a loss"
    assert bool((scores["mean_heads"] <= scores["summed"] + 1e-6).all())


def test_steps_batch_and_depth_of_hardened_routers_are_varied(tmp_path: Path) -> None:
    experiment = hardened_routers.EXPERIMENT
    results = run(tmp_path, experiment)
    assert list(results.runs) == [
        f"hardened_routers/{name}"
        for name in (
            *("hardened-chain-16x10", "hardened-chain-32x10", "hardened-chain-16x30"),
            *(
                "hardened-deep_chain-16x10",
                "hardened-deep_chain-16x30",
                "one-chain-chain-16x10",
                "one-chain-chain-16x30",
            ),
        )
    ]
    deep = {"router": "deep_chain", "steps": 30}
    whole = results.metric("chain_recall", condition=hardened_routers.SHUFFLED, k=4, router_seed=1, **deep)
    assert whole.n == chain_routers.EXAMPLES["smoke"]
    assert results.run(router="chain", steps=30, trained_on="multihop_hardened").counts["table"] == 480, (
        "nothing is read twice"
    )
    table = tables(experiment, results)["hardened-routers"]
    assert [row[0] for row in table.rows] == [
        "hardened, 2 layers, 10 steps of 16",
        "hardened, 2 layers, 10 steps of 32",
        "hardened, 2 layers, 30 steps of 16",
        "hardened, 4 layers, 10 steps of 16",
        "hardened, 4 layers, 30 steps of 16",
        "one-chain, 2 layers, 10 steps of 16",
        "one-chain, 2 layers, 30 steps of 16",
    ]
    told = hardened_routers.whole_chains(results, hardened_routers.THREE_HOPS)
    assert told.count("hardened, 2 layers, ") == 3
    assert told.count("4 layers, ") == 2
    assert told.count("one-chain, ") == 2
