"""The benchmark's code path on models that cost nothing: what it counts, what it compares, what it writes."""

import sys

import pytest
import torch

from keepset.paper.bench import engine as engine_bench
from keepset.paper.bench import peers
from keepset.paper.bench.engine import Setting
from keepset.paper.bench.engine_report import engine_table, peers_table
from keepset.paper.bench.tally import MODES, Spent, Tally, ratio
from keepset.paper.experiment import run_missing
from keepset.paper.result import RunResult, load_result
from keepset.paper.testbed.tasks.records import sample_records


def installed(package: str) -> bool:
    try:
        peers.load_captum() if package == "captum" else peers.load_context_cite()
    except ValueError:
        return False
    return True


needs_peers = pytest.mark.skipif(
    not (installed("captum") and installed("context-cite")), reason="the extra 'peers' is not installed"
)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> list[RunResult]:
    """The smoke scale as it comes from disk, without the other tools."""
    folder = tmp_path_factory.mktemp("results")
    with pytest.MonkeyPatch.context() as patch:
        alone = tuple(s.model_copy(update={"peer_units": 0}) for s in engine_bench.settings("smoke"))
        patch.setattr(engine_bench, "settings", lambda scale: alone)
        jobs = engine_bench.jobs("smoke")
        assert len(list(run_missing(jobs, folder, "smoke"))) == len(jobs) == 2
        assert not list(run_missing(jobs, folder, "smoke")), "what exists is not measured again"
    return [load_result(folder / "smoke" / f"{name}.json") for name in jobs]


def test_fast_says_what_the_reference_says(written: list[RunResult]) -> None:
    for result in written:
        assert result.metric("same_labels").value == 1.0
        assert result.metric("largest_gap").value <= 1e-4
        rows = 2 * result.config["n_blocks"] + 1
        assert result.counts["rows_compared"] == rows * result.counts["examples"]
        assert result.metric("exact_same_set").value == result.metric("exact_same_necessary").value == 1.0
        assert result.metric("evidence_same_set").value == 1.0


def test_tokens_are_those_of_the_theory(written: list[RunResult]) -> None:
    for result in written:
        (setting,) = [s for s in engine_bench.settings("smoke") if s.subject == result.config["subject"]]
        (example, *_), *_ = engine_bench.load_subject("smoke", setting).units
        tail = 4 * (len(example.answer) - 1) if setting.subject == "records" else 0
        length = len(example.tokens) + tail
        hidden = sum(length - span.stop for span in example.blocks)
        query = length - example.blocks[-1].stop
        alone = sum(len(span) + query for span in example.blocks)
        n = len(example.blocks)
        assert result.metric("reference_tokens").value == pytest.approx((2 * n + 1) * length, rel=0.02)
        # Theory leaves out the padding: forwards this small are filled up with shorter paths on purpose.
        theory = (2 * n + 1) * length / (length + hidden + alone)
        assert result.metric("reference_over_exact_tokens").value >= 0.7 * theory
        assert result.metric("clean_tokens").value == pytest.approx(length, rel=0.02)


def test_ratios_have_a_spread(written: list[RunResult]) -> None:
    for result in written:
        for mode in MODES:
            for what in ("seconds", "tokens"):
                name = f"reference_over_{mode}_{what}"
                low, middle, high = (result.metric(name + end).value for end in ("_q25", "", "_q75"))
                assert 0 < low <= middle <= high
                assert result.metric(name).n == result.counts["units"]


def test_a_sampled_reference_is_scaled_to_all_rows() -> None:
    full = Setting(subject="records", model="random", n_blocks=6, units=1)
    rows = 2 * full.n_blocks + 1
    whole = engine_bench.run("smoke", full)
    part = engine_bench.run("smoke", full.model_copy(update={"reference_rows": 4}))
    assert part.counts["rows_compared"] == 4
    assert whole.counts["rows_compared"] == rows
    assert part.metric("reference_tokens").value == pytest.approx(whole.metric("reference_tokens").value)


def test_no_unit_is_started_after_the_budget() -> None:
    result = engine_bench.run("smoke", Setting(subject="records", model="random", n_blocks=4, units=3, budget=0.0))
    assert result.counts["units"] == result.counts["examples"] == result.metric("exact_seconds").n == 1


def test_ratios_are_taken_unit_by_unit() -> None:
    tally = Tally()
    for unit, (slow, quick) in enumerate([(10.0, 1.0), (9.0, 3.0), (8.0, 2.0)]):
        tally.spent["reference"][unit] = Spent(slow, slow, 100)
        tally.spent["exact"][unit] = Spent(quick, quick, 20)
    tally.spent["captum"][2] = Spent(4.0, 4.0, 60)
    found = {metric.name: metric for metric in ratio(tally, "reference", "exact")}
    assert found["reference_over_exact_seconds"].value == 4.0
    assert found["reference_over_exact_seconds_q25"].value == 3.5
    assert found["reference_over_exact_seconds_q75"].value == 7.0
    assert found["reference_over_exact_tokens"].value == 5.0
    found = {metric.name: metric for metric in ratio(tally, "captum", "exact")}
    assert (found["captum_over_exact_seconds"].value, found["captum_over_exact_seconds"].n) == (2.0, 1)


def test_every_side_starts_once() -> None:
    sides = ["a", "b", "c"]
    assert [engine_bench.rotated(sides, unit)[0] for unit in range(4)] == ["a", "b", "c", "a"]
    assert sorted(engine_bench.rotated(sides, 2)) == sides


def test_threads_are_given_back() -> None:
    before = torch.get_num_threads()
    engine_bench.run("smoke", Setting(subject="teacher", model="random", n_blocks=9, units=1))
    assert torch.get_num_threads() == before


def test_jobs_are_one_file_per_setting() -> None:
    assert list(engine_bench.jobs("small")) == [
        *(f"bench/engine-teacher-{n}" for n in (16, 32, 64)),
        *(f"bench/engine-records-{n}" for n in (16, 32, 64, 128)),
    ]


def test_the_engine_table_has_a_row_per_mode(written: list[RunResult]) -> None:
    table = engine_table(written)
    assert len([row for row in table.rows if row]) == 4 * len(written)
    assert table.markdown()
    assert table.latex()
    assert not peers_table(written).rows


@needs_peers
def test_peers_explain_the_same_answer() -> None:
    model, tokenizer = engine_bench.tiny_model()
    (example,) = sample_records(tokenizer, seed=0, n_records=5)
    sentences, before, after = peers.split(example)
    assert before + "".join(sentences) + after == example.text
    scores = peers.captum_ablation(model, tokenizer)(example)

    def log_prob(text: str) -> float:
        tokens = [*tokenizer.encode(text), *example.answer]
        logits = model(torch.tensor([tokens])).logits[0].log_softmax(-1)
        rows = range(len(tokens) - len(example.answer) - 1, len(tokens) - 1)
        return sum(float(logits[row, tokens[row + 1]]) for row in rows)

    with torch.no_grad():
        without = [log_prob(before + "".join(s for s in sentences if s != gone) + after) for gone in sentences]
        drops = [log_prob(example.text) - value for value in without]
    assert scores == pytest.approx(drops, abs=1e-4)
    side, pad = tokenizer.padding_side, tokenizer.pad_token
    weights = [peers.context_cite(model, tokenizer, size, ablations=16)(example) for size in (1, 4)]
    assert len(weights[0]) == 5
    assert weights[0] == pytest.approx(weights[1], abs=1e-2), "left padding changes nothing"
    assert (tokenizer.padding_side, tokenizer.pad_token) == (side, pad)


@needs_peers
def test_the_peers_table_compares_on_the_units_all_explained() -> None:
    setting = Setting(subject="records", model="random", n_blocks=6, units=2, peer_units=1)
    result = engine_bench.run("smoke", setting)
    assert result.metric("captum_seconds").n == result.metric("contextcite_found").n == 1
    table = peers_table([result])
    assert [row[1] for row in table.rows] == [
        "keepset, every block alone",
        "keepset evidence set",
        "keepset exact",
        "keepset grouped",
        "keepset certified",
        "Captum FeatureAblation",
        "ContextCite, 64 ablations",
    ]


def test_missing_peers_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, load in (("captum.attr", peers.load_captum), ("context_cite", peers.load_context_cite)):
        monkeypatch.setitem(sys.modules, module, None)
        load.cache_clear()
        with pytest.raises(ValueError, match=r"pip install 'keepset\[peers\]'"):
            load()
        load.cache_clear()


def test_texts_that_are_not_records_are_refused() -> None:
    _, tokenizer = engine_bench.tiny_model()
    (example,) = sample_records(tokenizer, seed=0, n_records=3)
    object.__setattr__(example, "text", example.text.replace("The code for", "A code for", 1))
    with pytest.raises(ValueError, match="expected 3 in a row in the text, got 2"):
        peers.split(example)
