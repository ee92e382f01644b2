"""int8: close to float32, and every row for itself, so that the engine stays exact."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from keepset.interventions import Ask, Fast, Reference
from keepset.models.fingerprint import fingerprint, weights_fingerprint
from keepset.models.loading import load_model
from keepset.models.quantize import ROWS, Int8Linear, quantization, quantized, speedup
from keepset.paper.bench.models import loaded as bench_model
from keepset.paper.bench.models import tiny_model
from keepset.policies import H2O
from keepset.pruning import PrunedContext, Pruner
from keepset.pruning.commands import load_pruned_context
from keepset.text.example import text_example

DOCUMENT = "\n".join(f"The code for NARO{i} is {1000 + 37 * i}." for i in range(8))


@pytest.fixture(scope="module")
def loaded() -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    model, tokenizer = tiny_model()
    return quantized(model), tokenizer


def layer(width: int = 64, out: int = 96, bias: bool = True) -> tuple[nn.Linear, Int8Linear, Tensor]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        linear = nn.Linear(width, out, bias)
        return linear, Int8Linear(linear), torch.randn(2 * ROWS + 5, width) * torch.rand(2 * ROWS + 5, 1) * 10


@pytest.mark.parametrize("bias", [True, False])
def test_products_are_those_of_whole_numbers_scaled_back(bias: bool) -> None:
    linear, int8, rows = layer(bias=bias)
    with torch.no_grad():
        step = rows.abs().amax(1, keepdim=True).double() / 127
        unit = linear.weight.abs().amax(1).double() / 127
        exact = ((rows / step).round() @ (linear.weight.double() / unit[:, None]).round().mT) * step * unit
        exact += linear.bias if bias else 0
        found = int8(rows)
        torch.testing.assert_close(found.double(), exact, rtol=1e-3, atol=1e-3)
        assert float((found - linear(rows)).norm() / linear(rows).norm()) < 0.02


def test_a_row_does_not_depend_on_its_neighbours() -> None:
    _, int8, rows = layer()
    whole = int8(rows)
    for alone in (0, 17, ROWS, len(rows) - 1):
        assert torch.equal(int8(rows[alone : alone + 1]), whole[alone : alone + 1])
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))
    assert torch.equal(int8(rows[order]), whole[order])
    louder = rows.clone()
    louder[1:] *= 1_000
    assert torch.equal(int8(louder)[:1], whole[:1])
    assert torch.equal(int8(rows[:6].view(2, 3, -1)), whole[:6].view(2, 3, -1)), "any shape of batch"
    assert int8(torch.zeros(1, 64)).isfinite().all()


def test_the_head_stays_and_everything_else_is_rounded(
    loaded: tuple[PreTrainedModel, PreTrainedTokenizerBase],
) -> None:
    model, tokenizer = loaded
    plain, _ = tiny_model()
    assert isinstance(model.get_output_embeddings(), nn.Linear)
    assert sum(isinstance(module, Int8Linear) for module in model.modules()) == 2 * 7
    assert [type(module) for module in model.modules() if isinstance(module, nn.Linear)] == [nn.Linear]
    tokens = torch.randint(260, (1, 90), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        one, other = (each(tokens).logits.log_softmax(-1) for each in (model, plain))
    divergence = (other.exp() * (other - one)).sum(-1)
    assert 0 < float(divergence.max()) < 1e-2
    assert quantization(model) == "int8"
    assert quantization(plain) is None
    assert fingerprint(model, tokenizer) != fingerprint(plain, tokenizer)
    assert weights_fingerprint(model) != weights_fingerprint(plain)


def test_hiding_a_block_is_running_without_it(loaded: tuple[PreTrainedModel, PreTrainedTokenizerBase]) -> None:
    """The reference executor masks, the fast one leaves tokens out: int8 must not let them drift apart."""
    model, tokenizer = loaded
    example = text_example(tokenizer, DOCUMENT, "What is the code for NARO3?", "1111", "line")
    everything = frozenset(range(len(example.blocks)))
    keeps = [everything, everything - {3}, frozenset({3}), frozenset({0, 5}), frozenset()]
    asks = [Ask(example, keep, (example.answer,)) for keep in keeps]
    for masked, left_out in zip(Reference(model).read(asks), Fast(model).read(asks), strict=True):
        torch.testing.assert_close(
            torch.tensor(left_out[0].log_probs), torch.tensor(masked[0].log_probs), rtol=1e-3, atol=1e-2
        )


def test_a_pruned_document_remembers_it(
    loaded: tuple[PreTrainedModel, PreTrainedTokenizerBase], tmp_path: Path
) -> None:
    model, tokenizer = loaded
    plain, _ = tiny_model()
    plain.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    pruned = Pruner(model, tokenizer, H2O(), blocks="line").prune(DOCUMENT, 0.5)
    pruned.save(tmp_path / "doc.pruned", str(tmp_path / "model"))
    again = load_pruned_context(tmp_path / "doc.pruned", None, "cpu")
    assert quantization(again.model) == "int8"
    assert again.ask("What?", 4) == pruned.ask("What?", 4)
    with pytest.raises(ValueError, match="expected the model it was pruned for"):
        PrunedContext.load(tmp_path / "doc.pruned", plain, tokenizer)
    found, _ = load_model(tmp_path / "model", "float32", quantize="int8")
    assert weights_fingerprint(found) == weights_fingerprint(model)


def test_what_cannot_be_rounded_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="quantize: expected int8 or none, got 'int4'"):
        load_model(tmp_path, quantize="int4")  # type: ignore[arg-type]
    model, _ = tiny_model()
    model.model.layers[0].mlp.up_proj = nn.Linear(64, 99)
    with pytest.raises(ValueError, match="expected layers whose widths are multiples of 8, got up_proj of 64 to 99"):
        quantized(model)


def test_which_is_faster_is_measured() -> None:
    state = torch.random.get_rng_state()
    assert speedup(rows=32, width=64, out=64, rounds=1) > 0
    assert torch.equal(torch.random.get_rng_state(), state)
    assert quantization(bench_model("tiny", "int8")[0]) == "int8"
