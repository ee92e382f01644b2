"""A pruned document on disk: it answers the same, damage is noticed, nothing of others is touched."""

import copy
import json
import resource
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save

from keepset.files import sha256
from keepset.policies import H2O
from keepset.pruning import PrunedContext, Pruner
from tests.pruning.conftest import Loaded

NAMES = ("0.keys", "1.keys", "0.values", "1.values")
"""In the cache of the tiny model."""


@pytest.fixture
def saved(loaded: Loaded, document: str, tmp_path: Path) -> tuple[PrunedContext, Path]:
    pruned = Pruner(*loaded, H2O(), blocks=16).prune(document, 0.25)
    pruned.save(tmp_path / "doc.pruned", model_name="tiny")
    return pruned, tmp_path / "doc.pruned"


def test_saved_and_loaded_it_answers_the_same(loaded: Loaded, saved: tuple[PrunedContext, Path]) -> None:
    pruned, folder = saved
    found = PrunedContext.load(folder, *loaded)
    assert found.record == pruned.record
    assert found.text == pruned.text
    assert torch.equal(found.logits(torch.tensor([3, 4])), pruned.logits(torch.tensor([3, 4])))
    assert found.report().bytes_after == pruned.report().bytes_after
    with pytest.raises(ValueError, match=r"got one with a pruned document; .*--force \(in Python: force=True\)"):
        found.save(folder)
    found.save(folder, force=True)
    assert sorted(path.name for path in folder.iterdir()) == ["cache.safetensors", "pruned.json"]
    assert sorted(path.name for path in folder.parent.iterdir()) == ["doc.pruned"]


def test_another_model_is_refused(loaded: Loaded, saved: tuple[PrunedContext, Path]) -> None:
    other = copy.deepcopy(loaded[0])
    with torch.no_grad():
        other.model.norm.weight += 1
    with pytest.raises(ValueError, match=r"expected the model it was pruned for \(tiny\), got another one"):
        PrunedContext.load(saved[1], other, loaded[1])


def test_damage_is_noticed(loaded: Loaded, saved: tuple[PrunedContext, Path]) -> None:
    _, folder = saved
    cache, record = folder / "cache.safetensors", folder / "pruned.json"
    whole, text = cache.read_bytes(), record.read_text()
    for broken in (whole[:-100], whole[:-1] + bytes([whole[-1] ^ 1]), b""):
        cache.write_bytes(broken)
        with pytest.raises(ValueError, match=r"is damaged: expected cache\.safetensors with sha256"):
            PrunedContext.load(folder, *loaded)
    cache.unlink()
    with pytest.raises(ValueError, match="got no file"):
        PrunedContext.load(folder, *loaded)
    cache.write_bytes(whole)
    for broken_text in (text[:-50], "{}", text.replace('"policy"', '"polity"')):
        record.write_text(broken_text)
        with pytest.raises(ValueError, match=r"pruned\.json: expected a record that 'save' wrote"):
            PrunedContext.load(folder, *loaded)
    wrong = json.loads(text)
    wrong["record"]["blocks"][0]["why"] = "dropped"
    record.write_text(json.dumps(wrong))
    with pytest.raises(ValueError, match=r"tensors of shape \(1, 2, \d+, 16\), got"):
        PrunedContext.load(folder, *loaded)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        (
            "n_tokens",
            10**15,
            r"expected at most the [\d,]+ tokens of its document in n_tokens, got 1,000,000,000,000,000",
        ),
        ("n_tokens", -1, r"record\.n_tokens: Input should be greater than 0"),
        ("n_tokens", 10**30, "expected"),
        ("n_tokens", 1, "expected blocks numbered in order"),
        ("text_tokens", -5, r"record\.text_tokens: Input should be greater than 0"),
        ("text_tokens", 3, "expected text_tokens with mode text alone, got 3 with global"),
        ("mode", "text", "expected text_tokens with mode text alone, got None with text"),
        ("blocks", [], "expected at least one block, got none"),
        ("document", "", "expected blocks numbered in order"),
        ("budget", {"unit": "blocks", "amount": float("nan")}, r"record\.budget\.amount"),
        ("budget", {"unit": "share of blocks", "amount": -3}, r"record\.budget\.amount"),
    ],
)
def test_a_record_that_cannot_be_is_refused_before_memory_is_asked_for(
    loaded: Loaded, saved: tuple[PrunedContext, Path], field: str, value: object, said: str
) -> None:
    path = saved[1] / "pruned.json"
    data = json.loads(path.read_text())
    data["record"][field] = value
    path.write_text(json.dumps(data))
    with pytest.raises(ValueError, match=said) as caught:
        PrunedContext.load(saved[1], *loaded)
    assert "\n" not in str(caught.value)


def test_a_record_nested_too_deeply_is_refused(loaded: Loaded, saved: tuple[PrunedContext, Path]) -> None:
    (saved[1] / "pruned.json").write_text("[" * 100_000)
    with pytest.raises(ValueError, match=r"expected a record that 'save' wrote, got JSON nested too deeply"):
        PrunedContext.load(saved[1], *loaded)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda whole: b"\xff" * 64, "cannot be read"),
        (lambda whole: (10**12).to_bytes(8, "little") + whole[8:], "cannot be read"),
        (lambda whole: save({"0.keys": torch.zeros(3)}), "cannot be read"),
        (lambda whole: save({name: torch.zeros(2, 2) for name in NAMES}), r"tensors of shape .* got \(2, 2\)"),
        (lambda whole: save({name: torch.zeros(1, 3, 40, 16) for name in NAMES}), r"tensors of shape .* got \(1, 3"),
    ],
)
def test_a_cache_that_vouches_for_itself_and_is_broken_is_refused(
    loaded: Loaded, saved: tuple[PrunedContext, Path], make: Callable[[bytes], bytes], said: str
) -> None:
    cache, record = saved[1] / "cache.safetensors", saved[1] / "pruned.json"
    cache.write_bytes(make(cache.read_bytes()))
    data = json.loads(record.read_text())
    record.write_text(json.dumps({**data, "cache_sha256": sha256(cache)}))
    with pytest.raises(ValueError, match=said):
        PrunedContext.load(saved[1], *loaded)


def test_a_full_disk_is_one_line_and_leaves_nothing(loaded: Loaded, document: str, tmp_path: Path) -> None:
    pruned = Pruner(*loaded, H2O(), blocks=16).prune(document, 0.5)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))  # no file may grow beyond: a disk that runs full
    try:
        with pytest.raises(OSError, match=r"cache\.safetensors cannot be written, and nothing was kept") as caught:
            pruned.save(tmp_path / "doc.pruned")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_foreign_folders_are_neither_read_nor_overwritten(
    loaded: Loaded, saved: tuple[PrunedContext, Path], tmp_path: Path
) -> None:
    pruned, _ = saved
    foreign = tmp_path / "mine"
    foreign.mkdir()
    (foreign / "thesis.txt").write_text("years of work")
    with pytest.raises(ValueError, match=r"mine: expected a pruned document .* got no pruned\.json"):
        PrunedContext.load(foreign, *loaded)
    with pytest.raises(ValueError, match=r"mine: expected a new folder .* got thesis\.txt"):
        pruned.save(foreign)
    with pytest.raises(ValueError, match="expected a new folder, got a file"):
        pruned.save(foreign / "thesis.txt")
    assert (foreign / "thesis.txt").read_text() == "years of work"
    with pytest.raises(ValueError, match="expected a pruned document"):
        PrunedContext.load(tmp_path / "nowhere", *loaded)


def test_a_failed_save_leaves_the_old_one(saved: tuple[PrunedContext, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    pruned, folder = saved
    before = (folder / "pruned.json").read_text()

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("keepset.pruning.saved.write_json", fail)
    with pytest.raises(OSError, match="disk full"):
        pruned.save(folder, force=True)
    assert (folder / "pruned.json").read_text() == before
    assert [path.name for path in folder.parent.iterdir()] == ["doc.pruned"]
