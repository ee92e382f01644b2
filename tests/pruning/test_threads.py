"""Several threads on one model: pruning, asking and readouts do not see each other."""

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from keepset.models.attention import Attention, AttentionCall, wrapped_attention
from keepset.policies import H2O, SnapKV
from keepset.policies.routed import Routed
from keepset.pruning import PrunedContext, Pruner
from keepset.readouts import input_saliency
from keepset.routers.block import BlockRouter, ReadModel
from keepset.text.prompt import lay_out

Loaded = tuple[PreTrainedModel, PreTrainedTokenizerBase]
QUESTION = "What is the code for NARO3?"
THREADS = 3
CALLS = 6


@pytest.fixture(autouse=True)
def threads_take_turns_often() -> Iterator[None]:
    """Switching hundreds of times as often as Python does by itself makes a race show in a few calls."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.fixture(params=["sdpa", "eager"])
def implementation(request: pytest.FixtureRequest, loaded: Loaded) -> Iterator[str]:
    loaded[0].set_attn_implementation(request.param)
    yield request.param
    loaded[0].set_attn_implementation("sdpa")


def at_once(calls: list[Callable[[], object]]) -> list[list[object]]:
    """What every one of ``calls`` gives, each ``CALLS`` times in a thread of its own, all started together."""
    start = Barrier(len(calls))

    def again(call: Callable[[], object]) -> list[object]:
        start.wait()
        return [call() for _ in range(CALLS)]

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(again, calls))


@pytest.mark.usefixtures("implementation")
def test_threads_prune_and_ask_as_one_thread_does(loaded: Loaded, document: str) -> None:
    model, tokenizer = loaded
    router = BlockRouter(ReadModel.of(model), "pre_query", layers=1, target="causal", blocks=16)
    pruners = [Pruner(*loaded, policy, blocks=16) for policy in (H2O(), SnapKV(), Routed(router))]
    saved = pruners[0].prune(document, 0.25)
    prompt = lay_out(tokenizer, document, 16)
    answers = torch.tensor([[5, 6]])
    calls: list[Callable[[], object]] = [
        *(lambda pruner=pruner: pruner.prune(document, 0.25).kept for pruner in pruners),
        lambda: saved.ask(QUESTION, 4),
        lambda: input_saliency(model, prompt.tokens[None], prompt.blocks, answers).topk(3).indices.tolist(),
    ]
    calls += calls[-1:]  # two at once put back what each changed
    expected = [[call()] * CALLS for call in calls]
    assert at_once(calls) == expected
    assert not any("forward" in vars(layer) for layer in model.model.layers)
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_a_wrapper_is_seen_by_its_own_thread_alone(loaded: Loaded, implementation: str) -> None:
    model, _ = loaded
    tokens = torch.arange(12)[None]
    before = ALL_ATTENTION_FUNCTIONS.get(implementation)
    seen: list[int] = []

    def count(call: AttentionCall) -> Attention:
        seen.append(1)
        return call.attend()

    with torch.no_grad(), wrapped_attention(model, count), ThreadPoolExecutor(1) as pool:
        elsewhere = pool.submit(lambda: model(tokens).logits).result()
        assert not seen
        assert model.config._attn_implementation == implementation
        assert torch.equal(model(tokens).logits, elsewhere)
    assert len(seen) == model.config.num_hidden_layers
    assert ALL_ATTENTION_FUNCTIONS.get(implementation) is before


def test_threads_load_one_saved_document(loaded: Loaded, document: str, tmp_path: Path) -> None:
    Pruner(*loaded, H2O(), blocks=16).prune(document, 0.25).save(tmp_path / "doc.pruned")
    load = [lambda: PrunedContext.load(tmp_path / "doc.pruned", *loaded).ask(QUESTION, 2)] * THREADS
    assert len({answer for answers in at_once(load) for answer in answers}) == 1  # type: ignore[arg-type]
