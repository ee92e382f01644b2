"""Whose evidence a router learns: labels of models in the place of what is marked."""

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from keepset.jobs.label_data import label
from keepset.jobs.runner import Finished
from keepset.paper.bench.models import TINY
from keepset.paper.natural import transfer
from keepset.paper.natural.corpus import squad_dev
from keepset.paper.natural.documents import articles
from keepset.paper.natural.tables import transfer_table
from keepset.paper.results import Results


def test_a_router_learns_what_an_answer_rests_on_instead_of_what_is_marked(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Models label; whoever finds the marked sentence teaches as the annotators do, whoever finds others does not."""

    def found(asked: Sequence[transfer.Asked], model: str, quantize: str | None) -> transfer.Found:
        sentence = 2 if model == TINY else 0  # what the question is about stands third in its paragraph
        return {(one.article, one.place): transfer.Rested(frozenset({sentence}), frozenset()) for one in asked}

    monkeypatch.setattr(transfer, "labelled", found)
    run = transfer.run_transfer("natural", "smoke", data, [(TINY, None), ("other", None)])
    results = Results({"natural/transfer": run})
    assert results.value("rests", of="other") == 1
    marked = {of: results.value("rests_on_marked", of=of) for of in (TINY, "other")}
    assert marked == {TINY: 1, "other": 0}
    for of, source in product((TINY, "other"), (transfer.NOBODY, transfer.MARKED, TINY, "other")):
        assert results.metric("evidence_kept", of=of, source=source).n == run.counts["questions"]
    assert results.metric("among_best", source=TINY, number=2) == results.metric(
        "among_best", source=transfer.MARKED, number=2
    ).model_copy(update={"at": {"number": 2, "source": TINY}})
    table = transfer_table(results)
    assert [row[0] for row in table.rows][1:] == ["what annotators marked", "what tiny rests on", "what other rests on"]


def test_what_an_answer_rests_on_is_kept_whole_or_by_another_block_that_says_it() -> None:
    rested = transfer.Rested(frozenset({1, 2}), frozenset({5}))
    assert rested.within(frozenset({1, 2, 3}))
    assert rested.within(frozenset({5}))
    assert not rested.within(frozenset({1, 3}))
    assert not transfer.Rested(frozenset({1}), frozenset()).within(frozenset())


def test_labels_of_a_stopped_transfer_are_not_made_again(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = transfer.first_of_each(articles(data, "dev"), squad_dev("smoke", data), 1)
    done = []

    def counted(*args: Any, **options: Any) -> Finished:
        done.append(label(*args, **options))
        return done[-1]

    monkeypatch.setattr(transfer, "label", counted)
    first = transfer.labelled(asked, TINY, None)
    assert transfer.labelled(asked, TINY, None) == first
    assert done[-1].rows == len(asked)
    assert done[-1].new == 0
