"""The benchmark's code path on models that cost nothing: what it counts, what it compares, what it writes."""

import sys

import pytest
import torch

from keepset.paper.bench.engine import peers
from keepset.paper.bench.engine import run as engine_bench
from keepset.paper.bench.engine.run import Setting
from keepset.paper.bench.engine.tables import engine_table, peers_table
from keepset.paper.bench.engine.tally import EFFORTS, Spent, Tally, times
from keepset.paper.bench.models import TINY, tiny_model
from keepset.paper.bench.timing import MEDIAN, QUARTILES, rotated
from keepset.paper.experiment import run_missing
from keepset.paper.results import Results, read_results
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
def written(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """The smoke scale as it comes from disk, without the other tools."""
    folder = tmp_path_factory.mktemp("results")
    with pytest.MonkeyPatch.context() as patch:
        alone = tuple(s.model_copy(update={"peer_units": 0}) for s in engine_bench.settings("smoke"))
        patch.setattr(engine_bench, "settings", lambda scale: alone)
        jobs = engine_bench.jobs("smoke")
        assert len(list(run_missing(jobs, folder, "smoke"))) == len(jobs) == 2
        assert not list(run_missing(jobs, folder, "smoke")), "what exists is not measured again"
    return read_results(folder, "smoke")


def test_fast_says_what_the_reference_says(written: Results) -> None:
    for run in written.runs.values():
        assert written.value("same_labels", **run.at) == 1.0
        assert written.value("largest_gap", **run.at) <= 1e-4
        rows = 2 * run.config["n_blocks"] + 1
        assert run.counts["rows_compared"] == rows * run.counts["examples"]
        assert written.value("same_set", **run.at, side="exact") == 1.0
        assert written.value("same_necessary", **run.at, side="exact") == 1.0
        assert written.value("same_set", **run.at, side="evidence") == 1.0


def test_tokens_are_those_of_the_theory(written: Results) -> None:
    for run in written.runs.values():
        (setting,) = [s for s in engine_bench.settings("smoke") if s.subject == run.at["subject"]]
        (example, *_), *_ = engine_bench.load_subject("smoke", setting).units
        tail = 4 * (len(example.answer) - 1) if setting.subject == "records" else 0
        length = len(example.tokens) + tail
        hidden = sum(length - span.stop for span in example.blocks)
        query = length - example.blocks[-1].stop
        alone = sum(len(span) + query for span in example.blocks)
        n = len(example.blocks)
        reference, clean = (
            written.value("tokens", **run.at, side=side, quantile=MEDIAN) for side in ("reference", "clean")
        )
        assert reference == pytest.approx((2 * n + 1) * length, rel=0.02)
        # Theory leaves out the padding: forwards this small are filled up with shorter paths on purpose.
        theory = (2 * n + 1) * length / (length + hidden + alone)
        found = written.value("tokens_times", **run.at, side="exact", against="reference", quantile=MEDIAN)
        assert found >= 0.7 * theory
        assert clean == pytest.approx(length, rel=0.02)


def test_times_have_a_spread(written: Results) -> None:
    for run in written.runs.values():
        for effort in EFFORTS:
            for what in ("seconds_times", "tokens_times"):
                low, middle, high = (
                    written.metric(what, **run.at, side=effort, against="reference", quantile=quantile)
                    for quantile in QUARTILES
                )
                assert 0 < low.value <= middle.value <= high.value
                assert middle.n == run.counts["units"]


def measured(setting: Setting) -> Results:
    return Results({"engine/one": engine_bench.run("smoke", setting)})


def test_a_sampled_reference_is_scaled_to_all_rows() -> None:
    full = Setting(subject="records", model=TINY, n_blocks=6, units=1)
    rows = 2 * full.n_blocks + 1
    whole, part = measured(full), measured(full.model_copy(update={"reference_rows": 4}))
    assert part.run().counts["rows_compared"] == 4
    assert whole.run().counts["rows_compared"] == rows
    assert part.value("tokens", side="reference") == pytest.approx(whole.value("tokens", side="reference"))


def test_no_unit_is_started_after_the_budget() -> None:
    results = measured(Setting(subject="records", model=TINY, n_blocks=4, units=3, budget=0.0))
    counts = results.run().counts
    assert counts["units"] == counts["examples"] == results.metric("seconds", side="exact").n == 1


def test_times_are_taken_unit_by_unit() -> None:
    tally = Tally()
    for unit, (slow, quick) in enumerate([(10.0, 1.0), (9.0, 3.0), (8.0, 2.0)]):
        tally.spent["reference"][unit] = Spent(slow, slow, 100)
        tally.spent["exact"][unit] = Spent(quick, quick, 20)
    tally.spent["captum"][2] = Spent(4.0, 4.0, 60)
    found = {(metric.what, metric.at["quantile"]): metric for metric in times(tally, "reference", "exact")}
    assert [found["seconds_times", quantile].value for quantile in QUARTILES] == [3.5, 4.0, 7.0]
    assert found["tokens_times", MEDIAN].value == 5.0
    assert found["tokens_times", MEDIAN].at == {"side": "exact", "against": "reference", "quantile": MEDIAN}
    found = {(metric.what, metric.at["quantile"]): metric for metric in times(tally, "captum", "exact")}
    assert (found["seconds_times", MEDIAN].value, found["seconds_times", MEDIAN].n) == (2.0, 1)


def test_every_side_starts_once() -> None:
    sides = ["a", "b", "c"]
    assert [rotated(sides, unit)[0] for unit in range(4)] == ["a", "b", "c", "a"]
    assert sorted(rotated(sides, 2)) == sides


def test_threads_are_given_back() -> None:
    before = torch.get_num_threads()
    engine_bench.run("smoke", Setting(subject="teacher", model=TINY, n_blocks=9, units=1))
    assert torch.get_num_threads() == before


def test_jobs_are_one_file_per_setting() -> None:
    assert list(engine_bench.jobs("small")) == [
        *(f"engine/teacher-{n}" for n in (16, 32, 64)),
        *(f"engine/records-{n}" for n in (16, 32, 64, 128)),
    ]


def test_the_engine_table_has_a_row_per_effort(written: Results) -> None:
    table = engine_table(written)
    assert len([row for row in table.rows if row]) == 4 * len(written.runs)
    assert table.markdown()
    assert table.latex()
    assert not peers_table(written).rows


@needs_peers
def test_peers_explain_the_same_answer() -> None:
    model, tokenizer = tiny_model()
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
    spared = peers.context_cite(model, tokenizer, 1, ablations=16, sparing=True)(example)
    assert spared == pytest.approx(weights[0], abs=1e-2), "nor does leaving out what is not read"
    assert (tokenizer.padding_side, tokenizer.pad_token) == (side, pad)


@needs_peers
def test_the_peers_table_compares_on_the_units_all_explained() -> None:
    setting = Setting(subject="records", model=TINY, n_blocks=6, units=2, peer_units=1)
    results = measured(setting)
    assert results.metric("seconds", side="captum").n == results.metric("found", side="contextcite").n == 1
    table = peers_table(results)
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
    _, tokenizer = tiny_model()
    (example,) = sample_records(tokenizer, seed=0, n_records=3)
    object.__setattr__(example, "text", example.text.replace("The code for", "A code for", 1))
    with pytest.raises(ValueError, match="expected 3 in a row in the text, got 2"):
        peers.split(example)
