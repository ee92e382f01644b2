"""The path of scale ``paper``, with untrained models of the same architectures and a few examples."""

from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from keepset.interventions import Score
from keepset.paper import paper_map
from keepset.paper.bench import models
from keepset.paper.catalogue import experiments, find_experiments
from keepset.paper.eviction import documents as eviction_documents
from keepset.paper.eviction import run as eviction_run
from keepset.paper.eviction.experiment import EXPERIMENT as EVICTION
from keepset.paper.eviction.routers import Lessons
from keepset.paper.experiment import run_missing
from keepset.paper.pretrained import lookup, margins
from keepset.paper.pretrained.settings import SETTINGS, Setting
from keepset.paper.report import made
from keepset.paper.results import read_results
from tests.paper.pretrained.conftest import NAMES, forget
from tests.tiny import SHAPE
from tests.tokenizers import byte_tokenizer

pytestmark = pytest.mark.long

ARCHITECTURES: dict[str, tuple[type[Any], type[Any]]] = {
    "Qwen2.5": (Qwen2Config, Qwen2ForCausalLM),
    "Yi-1.5": (LlamaConfig, LlamaForCausalLM),
    "Llama-3.1": (LlamaConfig, LlamaForCausalLM),
    "gemma-2": (Gemma2Config, Gemma2ForCausalLM),
}


def untrained(name: str, **options: object) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """As the hub would give it, but tiny."""
    config, model = next(found for part, found in ARCHITECTURES.items() if part in name)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        shape = SHAPE | {"vocab_size": 400, "max_position_embeddings": 2_048}
        found: PreTrainedModel = model(config(**shape)).eval()
    tokenizer = byte_tokenizer()
    tokenizer.eos_token = "<|end|>"
    return found, tokenizer


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working folder on a machine where every model of the paper is tiny."""
    caches = (models._loaded, eviction_run.routed, eviction_documents._held, eviction_documents.part_documents)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(models, "load_model", untrained)
    for clear in (forget, *(cache.cache_clear for cache in caches)):
        clear()
    yield tmp_path
    for clear in (forget, *(cache.cache_clear for cache in caches)):
        clear()


def shrunk(setting: Setting) -> Setting:
    """Two examples wherever the paper has some."""
    counts = {
        field.name: 2
        for field in fields(setting)
        if isinstance(getattr(setting, field.name), int) and getattr(setting, field.name) and field.name != "part"
    }
    return replace(setting, **counts, scaled=((8, 2),) if setting.scaled else (), part=2)


@pytest.mark.parametrize("model", ["Qwen2.5-3B-Instruct", "Yi-1.5-9B-Chat", "gemma-2-9b-it"])
def test_record_experiments(model: str, hub: Path, squad_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (setting,) = [setting for setting in SETTINGS["paper"] if setting.name == model]
    monkeypatch.setitem(SETTINGS, "paper", (shrunk(setting),))
    monkeypatch.setitem(lookup.CURVE, "paper", (2,))
    monkeypatch.setitem(lookup.TRIED, "paper", 2)
    # An untrained model solves nothing but by chance; the table of margins is of solved examples.
    monkeypatch.setattr(margins.Ahead, "judge", lambda scorer, example, reading: Score(1.0, True))
    ran = set()
    for name in NAMES:
        experiment = experiments()[name]
        jobs = experiment.jobs_on("paper", squad_data) if experiment.jobs_on else experiment.jobs("paper")
        made_of = dict(run_missing(jobs, hub / "results", "paper"))
        assert all(model in file for file in made_of)
        ran |= {name} if made_of else set()
    wanted = {"pretrained", "record_overwrite"}
    wanted |= set(NAMES) - {"record_scaling", "counterfactual_squad"} - wanted if "gemma" not in model else set()
    wanted |= {"record_scaling", "counterfactual_squad"} if "3B" in model else set()
    assert wanted <= ran
    results = read_results(hub / "results", "paper")
    for name in ran:
        for report in experiments()[name].reports:
            assert made(report, experiments()[name], results), report.label


@pytest.mark.parametrize("model", ["Qwen2.5-3B-Instruct", "Llama-3.1-8B-Instruct", "Qwen2.5-32B-Instruct"])
def test_eviction_tables_of_their_own(model: str, hub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (setting,) = [s for s in eviction_run.SETTINGS["paper"] if s.short_name == model]
    small = replace(setting, lengths=((512, 1),), documents=1, lessons=Lessons(1, 1, 1, (2,)))
    monkeypatch.setitem(eviction_run.SETTINGS, "paper", (small,))
    # An untrained model answers nothing; a table needs somebody who does.
    monkeypatch.setattr(
        "keepset.paper.eviction.reader.Reader.answers", lambda reader, asked, keep, mode: True, raising=True
    )
    wanted = ("register_log-512-part0/dense", "register_log-512-part0/causal", "register_log-512-part0/h2o")
    jobs = {name: job for name, job in EVICTION.jobs("paper").items() if name.endswith(wanted)}
    assert len(jobs) == len(wanted)
    list(run_missing(jobs, hub / "results", "paper"))
    results = read_results(hub / "results", "paper")
    own = {"Qwen2.5-3B-Instruct": "tab:pq3b8k", "Llama-3.1-8B-Instruct": "tab:pqllama8k"}.get(model, "tab:pq32b8k")
    reports = [report for report in EVICTION.reports if report.label.startswith("tab:pq")]
    filled = {label for report in reports if made(report, EVICTION, results) for label in report.labels}
    assert own in filled
    assert ("tab:pq-staleany-fs" in filled) == (model != "Qwen2.5-3B-Instruct")
    assert not filled & ({"tab:pq8k", "tab:pq3b8k", "tab:pqllama8k", "tab:pq32b8k"} - {own})


def test_the_paper_scale_names_the_papers_models_lengths_and_counts() -> None:
    named = {setting.name: setting for setting in SETTINGS["paper"]}
    assert {name: setting.probed for name, setting in named.items()}["Qwen2.5-7B-Instruct"] == 400
    assert named["Qwen2.5-3B-Instruct"].scaled == ((16, 2_000), (32, 1_500), (64, 1_000), (128, 600))
    assert named["Qwen2.5-14B-Instruct"].size_of("unique") == 60
    assert named["Qwen2.5-14B-Instruct"].size_of("conflicting") == 0
    lengths = {s.short_name: [length for length, _ in s.lengths] for s in eviction_run.SETTINGS["paper"]}
    assert lengths["Qwen2.5-7B-Instruct"] == [8_192, 16_384, 32_768]
    assert lengths["Llama-3.1-8B-Instruct"] == lengths["Qwen2.5-32B-Instruct"] == [8_192, 16_384]
    assert {s.lessons.length for s in eviction_run.SETTINGS["paper"]} == {4_096}


SECTION = (
    *("tab:pretrained", "tab:app-pretrained-unique", "fig:pretrained", "tab:overwrite", "tab:scaling", "tab:sink"),
    *("tab:trace-pretrained", "tab:budget-sink", "tab:prefix", "tab:two-hop-readouts", "tab:two-hop-router"),
    *("tab:eviction", "tab:app-span-audit"),
)


@pytest.mark.parametrize("label", SECTION)
def test_one_command_for_every_table(label: str) -> None:
    assert label in paper_map.PAPER
    assert len(find_experiments([label])) == 1
