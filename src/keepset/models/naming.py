"""What a model's name means, said before anything is loaded: imports no torch, so a wrong name costs no seconds."""

from pathlib import Path
from typing import Literal

from keepset.models.bundled import BUNDLED, did_you_mean, fetched

Kind = Literal["bundled", "gguf", "folder", "hub"]

PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt")


def kind_of_model(name: str | Path) -> Kind:
    """What ``load_model`` will take ``name`` for; raises ValueError when it can be nothing."""
    if not isinstance(name, str | Path):
        raise ValueError(
            f"model: expected a bundled name, a folder, a .gguf file or a hub id, got {type(name).__name__}"
        )
    path = model_path(name)
    if str(name) in BUNDLED:
        return "bundled"
    if path.is_file():
        if path.suffix != ".gguf":
            raise ValueError(f"{path}: expected a folder, a .gguf file, a hub id or a bundled name, got another file")
        return "gguf"
    if path.is_dir():
        check_folder(path)
        return "folder"
    meant = did_you_mean(str(name))
    if path.suffix == ".gguf" or path.is_absolute() or str(name).startswith((".", "~")) or len(path.parts) > 2:
        raise ValueError(f"{name}: no such file or folder. {known_names()}{meant}")
    if "/" not in str(name) and meant:
        raise ValueError(f"{str(name)!r} is no bundled model and no folder here{meant} {known_names()}")
    return "hub"


def check_named_model(name: str, named_by: Path) -> str:
    """``name``, when a file from elsewhere may choose it: a model that is here already, for ``load_model``.

    Whoever wrote the file must not decide what is downloaded, nor point out of the folders a user looks at.
    """
    path = model_path(name)
    if name in BUNDLED:
        if fetched(name) is None:
            raise ValueError(
                f"{named_by}: names the model {name}, which is not on this machine; get it with: "
                f"keepset models fetch {name}"
            )
    elif ".." in path.parts or not ((path / "config.json").is_file() or (path.is_file() and path.suffix == ".gguf")):
        raise ValueError(
            f"{named_by}: names the model {name!r}, which is no bundled model and no folder or .gguf file here, and "
            "what a file names is not followed elsewhere; say where the model is with --model"
        )
    return name


def check_folder(folder: Path) -> None:
    """A folder must hold a config and safetensors; says what it holds instead."""
    if not (folder / "config.json").is_file():
        ggufs = sorted(path.name for path in folder.glob("*.gguf"))
        hint = f"; it holds GGUF files, pass one of them: {', '.join(ggufs)}" if ggufs else ""
        raise ValueError(f"{folder}: expected a model folder with a config.json, found none{hint}")
    if any(folder.glob("*.safetensors")):
        return
    pickles = sorted(path.name for pattern in PICKLES for path in folder.glob(pattern))
    if pickles:
        raise ValueError(
            f"{folder}: expected safetensors weights, got only pickled ones ({', '.join(pickles)}), which can run "
            "code when opened; convert them with save_pretrained in a place you trust"
        )
    raise ValueError(f"{folder}: expected safetensors weights (*.safetensors), found no weights")


def model_path(name: str | Path) -> Path:
    try:
        return Path(name).expanduser()
    except RuntimeError:  # ~somebody, who has no home here
        return Path(name)


def known_names() -> str:
    return f"Bundled models: {', '.join(BUNDLED)}"
