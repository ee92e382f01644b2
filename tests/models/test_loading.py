"""Every way into load_model, and every way it can go wrong."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM, PreTrainedModel

from keepset.models import loading
from keepset.models.bundled import BUNDLED
from keepset.models.gguf_file import convert_gguf, load_gguf
from keepset.models.loading import default_dtype, has_fast_bfloat16, load_model


@pytest.fixture(scope="module")
def folder(tiny_gguf: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model")
    convert_gguf(tiny_gguf, path, torch.float32)
    return path


def logits(model: PreTrainedModel) -> torch.Tensor:
    with torch.no_grad():
        found: torch.Tensor = model(torch.arange(3, 23)[None]).logits
    return found


def test_a_folder_and_its_gguf_are_the_same_model(folder: Path, tiny_gguf: Path) -> None:
    model, tokenizer = load_model(folder, dtype=torch.float32)
    other, other_tokenizer = load_model(str(tiny_gguf), dtype="float32")
    assert not model.training
    assert isinstance(model, LlamaForCausalLM)
    assert torch.equal(logits(model), logits(other))
    assert tokenizer.chat_template == other_tokenizer.chat_template
    text = "The code for NARO is 4821.  It's  7."
    assert tokenizer(text)["input_ids"] == other_tokenizer(text)["input_ids"]
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_a_bundled_name_is_fetched_with_a_message(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "smollm2-135m-instruct"
    monkeypatch.setattr(loading, "fetched", lambda _: None)
    monkeypatch.setattr(loading, "fetch", lambda _: folder)
    model, _ = load_model(name)
    assert isinstance(model, LlamaForCausalLM)
    assert f"{name} is not on this machine yet" in capsys.readouterr().err


@pytest.mark.parametrize(("dtype", "found"), [("bfloat16", torch.bfloat16), (torch.float16, torch.float16)])
def test_the_dtype_can_be_chosen(folder: Path, dtype: str, found: torch.dtype) -> None:
    assert load_model(folder, dtype=dtype)[0].dtype == found


def test_bfloat16_is_the_default_only_where_it_is_fast_or_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "has_fast_bfloat16", lambda: False)
    assert default_dtype(1000) == torch.float32
    assert default_dtype(10**15) == torch.bfloat16
    monkeypatch.setattr(loading, "has_fast_bfloat16", lambda: True)
    assert default_dtype(1000) == torch.bfloat16
    assert default_dtype(1000, "meta") == torch.float32


def test_the_default_dtype_is_used(folder: Path) -> None:
    assert load_model(folder)[0].dtype == (torch.bfloat16 if has_fast_bfloat16() else torch.float32)


def test_the_first_token_follows_the_header(tmp_path: Path, gguf_writer: Callable[..., None]) -> None:
    path = tmp_path / "bos.gguf"
    gguf_writer(path, add_bos=True)
    _, tokenizer = load_gguf(path, torch.float32)
    assert tokenizer("a")["input_ids"][0] == tokenizer.bos_token_id == 1
    tokenizer.save_pretrained(tmp_path / "saved")
    assert AutoTokenizer.from_pretrained(tmp_path / "saved")("a")["input_ids"][0] == 1


@pytest.mark.parametrize("name", ["./nowhere", "~/nowhere", "a/b/c", "nowhere.gguf"])
def test_missing_paths(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name}: no such file or folder. Bundled models: smollm2-135m-instruct, "):
        load_model(name)


@pytest.mark.parametrize("name", ["smollm3", "somebody/something"])
def test_unknown_names_list_the_bundled_ones(name: str) -> None:
    with pytest.raises(ValueError, match=f"'{name}' is no bundled model.*{', '.join(BUNDLED)}"):
        load_model(name)


def test_a_folder_without_config(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"expected a model folder with a config.json, found none$"):
        load_model(tmp_path)
    (tmp_path / "some.gguf").touch()
    with pytest.raises(ValueError, match=r"it holds GGUF files, pass one of them: some\.gguf"):
        load_model(tmp_path)


def test_a_folder_without_safetensors(tmp_path: Path) -> None:
    LlamaConfig().save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="found no weights"):
        load_model(tmp_path)
    torch.save({}, tmp_path / "pytorch_model.bin")
    with pytest.raises(ValueError, match=r"got only pickled ones \(pytorch_model.bin\), which can run code"):
        load_model(tmp_path)


def test_a_folder_without_tokenizer(folder: Path, tmp_path: Path) -> None:
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    with pytest.raises(ValueError, match="no tokenizer could be loaded"):
        load_model(tmp_path)


def test_files_that_are_no_model(tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("hello")
    with pytest.raises(ValueError, match=r"expected a folder, a .gguf file, a hub id or a bundled name"):
        load_model(notes)
    renamed = notes.rename(tmp_path / "notes.gguf")
    with pytest.raises(ValueError, match=r"expected a GGUF file .*got b'hell'"):
        load_model(renamed)


@pytest.mark.parametrize("share", [0.0005, 0.02, 0.3, 0.9])
def test_a_gguf_cut_short(tiny_gguf: Path, tmp_path: Path, share: float) -> None:
    data = tiny_gguf.read_bytes()
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(ValueError, match=r"damaged or cut short|transformers cannot load this GGUF file"):
        load_model(cut)


def test_a_gguf_without_weights(tmp_path: Path, gguf_writer: Callable[..., None]) -> None:
    path = tmp_path / "empty.gguf"
    gguf_writer(path, tensors=False)
    with pytest.raises(ValueError, match=r"empty\.gguf: the weights are incomplete: missing_keys .* more$"):
        load_model(path)


def test_a_folder_with_missing_weights(folder: Path, tmp_path: Path) -> None:
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    weights = load_file(folder / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ValueError, match=r"incomplete: missing_keys model\.layers\.1\.mlp\.up_proj\.weight$"):
        load_model(tmp_path)


def test_unsupported_architectures_are_refused_at_load(folder: Path, tmp_path: Path) -> None:
    rope = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}
    model, tokenizer = load_model(folder, dtype=torch.float32)
    model.config.rope_parameters = rope
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"\(dynamic\) depend on the current length"):
        load_model(tmp_path)


def test_wrong_dtypes_and_devices(folder: Path) -> None:
    with pytest.raises(ValueError, match="dtype: expected float32, bfloat16 or float16, got 'int8'"):
        load_model(folder, dtype="int8")
    with pytest.raises(ValueError, match="dtype: expected float32, bfloat16 or float16, got 'best'"):
        load_model(folder, dtype="best")
    with pytest.raises(ValueError, match="device: 'warp' is not usable here"):
        load_model(folder, device="warp")
