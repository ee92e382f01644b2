"""The benchmark of int8 on the smoke scale: what it measures and writes, never how long it takes."""

from pathlib import Path

import torch

from keepset.paper.bench import int8
from keepset.paper.claim import OPEN
from keepset.paper.experiment import run_missing
from keepset.paper.results import read_results


def test_both_sides_are_asked_the_same(tmp_path: Path) -> None:
    made = [name for name, _ in run_missing(int8.jobs("smoke"), tmp_path, "smoke")]
    assert made == ["int8/tiny-prefill", "int8/tiny-records", "int8/tiny-needles"]
    results = read_results(tmp_path, "smoke")
    assert 0 < results.value("divergence", subject="prefill", quantile="median") < 1e-2
    for subject in ("records", "needles"):
        assert results.metric("same_evidence", subject=subject).n == 2
        assert 0 <= results.value("same_answer", subject=subject) <= 1
    table = int8.int8_table(results)
    assert [row[1] for row in table.rows] == ["needles", "prefill", "records"]
    claims = int8.int8_claims(results)
    assert len(claims) == 2, "of labels; how fast it is depends on the machine"
    assert all(claim.verdict == OPEN for claim in claims), "two examples tell nothing"


def test_a_difference_is_seen() -> None:
    same = int8.Labelled([True, True], [frozenset({1}), frozenset({2})], [[4.0], [3.0]])
    other = int8.Labelled([True, False], [frozenset({1}), frozenset()], [[3.5], [0.0]])
    found = {(m.what, m.at.get("quantile")): m.value for m in int8.agreement({"float32": same, "int8": other})}
    assert found["same_answer", None] == found["same_evidence", None] == 0.5
    assert found["drop_gap", "median"] == 1.75
    certain = torch.tensor([[0.5, 0.5]]).log()
    assert int8.divergence(certain, certain) == 0
