"""Every way into load_model, and every way it can go wrong."""

import json
from collections.abc import Callable
from pathlib import Path

import gguf
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM, PreTrainedModel

from keepset.models import loading
from keepset.models.bundled import BUNDLED
from keepset.models.gguf_file import convert_gguf, load_gguf
from keepset.models.loading import default_dtype, load_model
from keepset.models.naming import check_named_model


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


def test_bfloat16_is_the_default_only_where_float32_does_not_fit() -> None:
    assert default_dtype(1000) == torch.float32
    assert default_dtype(10**15) == torch.bfloat16
    assert default_dtype(1000, "meta") == torch.float32


def test_the_default_dtype_is_used(folder: Path) -> None:
    assert load_model(folder)[0].dtype == torch.float32, "on every processor"


def test_the_first_token_follows_the_header(tmp_path: Path, gguf_writer: Callable[..., None]) -> None:
    path = tmp_path / "bos.gguf"
    gguf_writer(path, add_bos=True)
    _, tokenizer = load_gguf(path, torch.float32)
    assert tokenizer("a")["input_ids"][0] == tokenizer.bos_token_id == 1
    tokenizer.save_pretrained(tmp_path / "saved")
    assert AutoTokenizer.from_pretrained(tmp_path / "saved")("a")["input_ids"][0] == 1


def test_a_header_is_parsed_once_and_the_package_left_as_it_was(
    tiny_gguf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed = []

    class Counting(gguf.GGUFReader):  # type: ignore[misc]
        def __init__(self, path: str) -> None:
            parsed.append(path)
            super().__init__(path)

    monkeypatch.setattr(gguf, "GGUFReader", Counting)
    load_gguf(tiny_gguf, torch.float32)
    assert parsed == [str(tiny_gguf)]
    assert gguf.GGUFReader is Counting


@pytest.mark.parametrize("name", ["./nowhere", "~/nowhere", "~nobody0/x", "a/b/c", "nowhere.gguf"])
def test_missing_paths(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name}: no such file or folder. Bundled models: smollm2-135m-instruct, "):
        load_model(name)


@pytest.mark.parametrize("name", ["smollm3", "somebody/something"])
def test_unknown_names_list_the_bundled_ones(name: str) -> None:
    with pytest.raises(ValueError, match=f"'{name}' is no bundled model.*{', '.join(BUNDLED)}"):
        load_model(name)


@pytest.mark.parametrize("name", ["smolm2-135m-instruct", "smollm2-135m", "Gemma-3-270M", "qwen2.5-coder-1.5b"])
def test_a_mistyped_name_is_told_what_was_meant_and_no_hub_is_asked(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(loading, "model_info", lambda name, timeout: asked.append(name))
    with pytest.raises(ValueError, match=rf"'{name}' is no bundled model .*did you mean [a-z0-9.-]+\?") as caught:
        load_model(name)
    assert "\n" not in str(caught.value)
    assert not asked


def test_the_hub_is_asked_once_and_its_no_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub.errors as errors

    def no(name: str, timeout: float) -> None:
        raise errors.HFValidationError(f"{name}:\nno such thing")

    monkeypatch.setattr(loading, "model_info", no)
    with pytest.raises(ValueError, match="and the hub has no such model, or not for you") as caught:
        load_model("somebody/something")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", [None, b"smollm2-135m-instruct", 3])
def test_what_is_no_name_at_all(name: object) -> None:
    with pytest.raises(ValueError, match=r"model: expected a bundled name, .* got (NoneType|bytes|int)"):
        load_model(name)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("file", "written", "said"),
    [
        ("config.json", b"[" * 100_000, "cannot be loaded"),
        ("config.json", b'{"model_type": "llama", "hidden_size": "abc"}', "hidden_size"),
        ("config.json", b'{"model_type": "nothing"}', "nothing"),
        ("model.safetensors", b"\xff" * 40, "eader"),
        ("model.safetensors", b"\x10\x00\x00\x00\x00\x00\x00\x00{'broken': 1}    ", "eader"),
        ("model.safetensors", b"", "eader"),
        ("tokenizer.json", b"", "no tokenizer could be loaded"),
        ("tokenizer.json", b"[" * 100_000, "no tokenizer could be loaded"),
    ],
)
def test_broken_files_are_one_clear_line(folder: Path, tmp_path: Path, file: str, written: bytes, said: str) -> None:
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / file).write_bytes(written)
    with pytest.raises(ValueError, match=f"^{tmp_path}: .*{said}") as caught:
        load_model(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "error", [MemoryError("all taken"), RuntimeError("DefaultCPUAllocator: can't allocate memory: ...")]
)
def test_too_little_memory_is_no_fault_of_the_files(
    folder: Path, tiny_gguf: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise error

    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", fail)
    for source in (folder, tiny_gguf):
        with pytest.raises(type(error), match=str(error)):
            load_model(source)


def test_a_tokenizer_without_words_is_refused(folder: Path, tmp_path: Path) -> None:
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    empty = {"version": "1.0", "model": {"type": "BPE", "vocab": {}, "merges": []}, "added_tokens": []}
    (tmp_path / "tokenizer.json").write_text(json.dumps(empty))
    with pytest.raises(ValueError, match=f"^{tmp_path}: "):
        load_model(tmp_path)


def test_a_tokenizer_of_another_model_is_refused(folder: Path, tmp_path: Path) -> None:
    config = LlamaConfig(
        vocab_size=20, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2
    )
    LlamaForCausalLM(config).save_pretrained(tmp_path)
    for path in folder.glob("tokenizer*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    with pytest.raises(ValueError, match="expected a tokenizer that gives tokens of the model's 20, got an id of"):
        load_model(tmp_path)


def test_a_file_may_name_a_model_that_is_here_and_no_other(
    folder: Path, tiny_gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEEPSET_CACHE", str(tmp_path / "cache"))
    work = tmp_path / "work"
    work.mkdir()
    (tmp_path / "secret").mkdir()
    (work / "model").symlink_to(folder)
    monkeypatch.chdir(work)
    source = Path("doc.pruned")
    for name in ("model", "./model", str(folder), str(tiny_gguf)):
        assert check_named_model(name, source) == name
    for name in (
        "../secret",
        "../../x",
        "model/../../secret",
        "somebody/something",
        "gpt2",
        "nowhere.gguf",
        "~nobody0/x",
        "",
    ):
        with pytest.raises(ValueError, match=r"doc\.pruned: names the model .*say where the model is with --model"):
            check_named_model(name, source)
    with pytest.raises(ValueError, match=r"not on this machine; get it with: keepset models fetch gemma-3-270m"):
        check_named_model("gemma-3-270m", source)


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
    with pytest.raises(ValueError, match="device: expected cpu, cuda, cuda:1 or mps, got 'warp'"):
        load_model(folder, device="warp")
