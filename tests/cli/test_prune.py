"""``keepset prune`` and ``keepset ask`` as a user types them."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from keepset.cli import main
from keepset.paper.bench.models import tiny_model
from keepset.policies import POLICIES
from keepset.pruning.saved import read_saved
from keepset.routers.block import BlockRouter, ReadModel

Run = tuple[int, str, str]
"""Exit code, standard output, standard error."""
Keepset = Callable[..., Run]


@pytest.fixture
def keepset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Keepset:
    """Runs a command in ``tmp_path``, where a model, a router and a document are."""
    model, tokenizer = tiny_model()
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    router = BlockRouter(ReadModel.of(model), "pre_query", layers=1, target="causal", blocks=16)
    router.save_pretrained(tmp_path / "router")
    (tmp_path / "doc.txt").write_text("\n".join(f"The code for NARO{i} is {1000 + i}." for i in range(20)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    capsys.readouterr()  # what saving the model printed

    def run(*arguments: str) -> Run:
        monkeypatch.setattr(sys, "argv", ["keepset", *arguments])
        with pytest.raises(SystemExit) as exit_info:
            main()
        printed = capsys.readouterr()
        return int(exit_info.value.code or 0), printed.out, printed.err

    return run


PRUNE = ("prune", "doc.txt", "--model", "./model", "--out", "doc.pruned", "--blocks", "16")


@pytest.mark.parametrize(
    "how",
    [
        ("--router", "router", "--budget", "0.25"),
        ("--policy", "h2o", "--budget", "4", "--mode", "post_prefill"),
        ("--policy", "snapkv", "--budget", "0.3 tokens", "--question", "What is the code for NARO3?"),
    ],
)
def test_prune_then_ask(keepset: Keepset, tmp_path: Path, how: tuple[str, ...]) -> None:
    code, out, _ = keepset(*PRUNE, *how, "--text", "kept.txt")
    assert code == 0
    assert "chosen" in out
    assert "written to doc.pruned" in out
    assert (tmp_path / "kept.txt").read_text().startswith("The code for NARO0")
    code, first, said = keepset("ask", "doc.pruned", "What is the code for NARO3?", "--max-new-tokens", "4")
    assert code == 0
    blocks = read_saved(tmp_path / "doc.pruned").record.blocks
    kept = [block for block in blocks if block.kept]
    share = sum(block.tokens for block in kept) / sum(block.tokens for block in blocks)
    assert 0 < share < 1
    expected = f"answered from {100 * share:.0f} % of the document's tokens: {len(kept)} of {len(blocks)} blocks"
    assert said.splitlines() == [expected]
    assert expected not in first, "standard output is the answer alone"
    assert keepset("ask", "doc.pruned", "What is the code for NARO3?", "--max-new-tokens", "4")[1] == first
    (tmp_path / "model").rename(tmp_path / "moved")
    assert keepset("ask", "doc.pruned", "Which?", "--model", "./moved", "--max-new-tokens", "4")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (PRUNE, "expected either --router or --policy, got neither"),
        ((*PRUNE, "--policy", "h2o", "--router", "router"), "expected either --router or --policy, got both"),
        ((*PRUNE, "--policy", "h3o"), "policy: expected one of h2o, snapkv"),
        ((*PRUNE[:-1], "32", "--router", "router"), "blocks: expected blocks of 16 tokens, which this router was"),
        ((*PRUNE, "--router", "model"), "expected the config of a saved router"),
        ((*PRUNE, "--policy", "h2o", "--budget", "0"), "budget: expected at least 1 block"),
        ((*PRUNE, "--policy", "h2o", "--budget", "1.5"), "budget: expected a share in (0, 1]"),
        ((*PRUNE, "--policy", "h2o", "--mode", "local"), "mode: expected one of global, post_prefill, text"),
        ((*PRUNE[:4], "--out", "model", "--policy", "h2o"), "model: expected a new folder or one that holds only"),
        (("prune", "none.txt", *PRUNE[2:], "--policy", "h2o"), "none.txt: expected a text file"),
        (("ask", "model", "Which?"), "expected a pruned document"),
        (("ask", "doc.pruned", "Which?"), "expected a folder written by 'keepset prune', got none"),
    ],
)
def test_errors_are_one_clear_line_and_leave_nothing(
    keepset: Keepset, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    code, _, error = keepset(*arguments)
    assert code == 1
    assert message in error
    assert not (tmp_path / "doc.pruned").exists()


def test_a_pruned_document_is_replaced_with_force_alone(keepset: Keepset, tmp_path: Path) -> None:
    assert keepset(*PRUNE, "--policy", "recency")[0] == 0
    before = (tmp_path / "doc.pruned" / "pruned.json").read_bytes()
    code, _, error = keepset(*PRUNE, "--policy", "random")
    assert code == 1
    assert "got one with a pruned document; choose another one, or replace it with --force" in error
    assert (tmp_path / "doc.pruned" / "pruned.json").read_bytes() == before
    assert keepset(*PRUNE, "--policy", "random", "--force")[0] == 0
    assert read_saved(tmp_path / "doc.pruned").record.policy == "random"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*PRUNE[:4], "--out", "../beside/new/doc.pruned"), "beside/new to exist (only inside the working folder"),
        ((*PRUNE[:4], "--out", "doc.txt/doc.pruned"), "doc.txt to be a folder, got something else"),
        ((*PRUNE[:4], "--out", "doc.txt"), "doc.txt: expected a new folder, got a file"),
        ((*PRUNE, "--text", "../beside/new/kept.txt"), "beside/new to exist (only inside the working folder"),
    ],
)
def test_bad_output_paths_are_refused_before_the_model_is_loaded(
    keepset: Keepset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("the model was loaded")

    monkeypatch.setattr("keepset.pruning.commands.load_model", never)
    code, _, error = keepset(*arguments, "--policy", "h2o")
    assert code == 1
    assert message in error
    assert len(error.splitlines()) == 1
    assert not (tmp_path.parent / "beside").exists()


@pytest.mark.parametrize("name", ["somebody/something", "../../x", "gemma-3-270m"])
def test_ask_does_not_follow_the_model_a_file_names(
    keepset: Keepset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError(f"{name} was followed")

    monkeypatch.setenv("KEEPSET_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("keepset.models.loading.fetch", never)
    monkeypatch.setattr("keepset.models.loading.model_info", never)
    assert keepset(*PRUNE, "--policy", "recency")[0] == 0
    record = tmp_path / "doc.pruned" / "pruned.json"
    record.write_text(record.read_text().replace('"model": "./model"', f'"model": "{name}"'))
    code, _, error = keepset("ask", "doc.pruned", "Which?")
    assert code == 1
    assert f"doc.pruned: names the model {name!r}"[:40] in error.replace("model g", "model 'g")
    assert "--model" in error or "keepset models fetch gemma-3-270m" in error
    assert keepset("ask", "doc.pruned", "Which?", "--model", "./model", "--max-new-tokens", "2")[0] == 0


HOSTILE = "\x1b]0;owned\x07 \x1b[2J \u202eevil"


def test_text_does_not_steer_the_terminal(keepset: Keepset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "doc.txt").write_text(f"{HOSTILE} one.\n" * 8, encoding="utf-8")
    code, out, _ = keepset(*PRUNE, "--policy", "recency", "--text", "kept.txt", "--blocks", "line")
    assert code == 0
    assert r"\x1b]0;owned\x07" in out
    assert r"\u202eevil" in out
    assert "\x1b]" not in out
    assert "\u202e" not in out
    assert HOSTILE in (tmp_path / "kept.txt").read_text(encoding="utf-8"), "a file keeps the text"
    monkeypatch.setattr("keepset.pruning.context.PrunedContext.ask", lambda *_: HOSTILE)
    assert keepset("ask", "doc.pruned", "Which?")[1] == f"{HOSTILE}\n", "so does a pipe"
    monkeypatch.setattr("keepset.cli.shared.out_console", Console(force_terminal=True, color_system=None))
    shown = keepset("ask", "doc.pruned", "Which?")[1]
    assert shown == r"\x1b]0;owned\x07 \x1b[2J \u202eevil" + "\n"
    code, _, error = keepset("ask", f"{HOSTILE}\nno such folder", "Which?")
    assert code == 1
    assert r"\x1b]0;owned\x07" in error
    assert "\x1b]" not in error
    assert len(error.splitlines()) == 1


def test_bytes_that_are_not_utf_8_are_refused(keepset: Keepset) -> None:
    assert keepset(*PRUNE, "--policy", "recency")[0] == 0
    code, _, error = keepset("ask", "doc.pruned", "Which \udcff?")
    assert code == 1
    assert r"question: expected text in UTF-8, got bytes that are not: 'Which \udcff?'" in error
    code, _, error = keepset(
        "explain", "--model", "./model", "--context", "doc.txt", "--question", "Which?", "--answer", "\udcff"
    )
    assert code == 1
    assert r"answer: expected text in UTF-8, got bytes that are not: '\udcff'" in error


def test_help_names_every_policy(keepset: Keepset) -> None:
    code, out, _ = keepset("prune", "--help")
    assert code == 0
    assert all(name in out for name in POLICIES)
