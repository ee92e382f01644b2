"""int8: close to float32, and every row for itself, so that the engine stays exact."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from keepset.interventions import Ask, Fast, Reference
from keepset.models.fingerprint import fingerprint, weights_fingerprint
from keepset.models.loading import load_model
from keepset.models.quantize import (
    CHUNK,
    LARGEST,
    SPREAD,
    Int8Linear,
    largest,
    mixing,
    quantization,
    quantized,
    speedup,
)
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


ROWS = CHUNK + 45


def layer(width: int = 64, out: int = 96, bias: bool = True) -> tuple[nn.Linear, Int8Linear, Tensor]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        linear = nn.Linear(width, out, bias)
        return linear, Int8Linear(linear), torch.randn(ROWS, width) * torch.rand(ROWS, 1) * 10


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("width", [64, 192, 99])
def test_products_are_those_of_whole_numbers_scaled_back(width: int, bias: bool) -> None:
    linear, int8, rows = layer(width, bias=bias)
    matrix = mixing(width).double()
    mixed, weight = ((part.double().view(-1, len(matrix)) @ matrix).view(part.shape) for part in (rows, linear.weight))
    with torch.no_grad():
        step, unit = (largest(part) / LARGEST for part in (mixed, weight))
        exact = ((mixed / step).round() @ (weight / unit).round().mT) * step * unit.mT
        exact += linear.bias if bias else 0
        found = int8(rows)
        off = (found.double() - exact).abs() / step / unit.mT
        assert float((off > 1e-2).double().mean()) < 1e-2, "but for numbers half way between two"
        assert float((found - linear(rows)).norm() / linear(rows).norm()) < 0.02


def test_no_sum_of_products_is_cut_off() -> None:
    """Where processors add pairs of products in 16 bits, full-scale activations and weights are the worst case."""
    linear = nn.Linear(64, 8, bias=False)
    matrix = torch.block_diag(*[mixing(64)] * (64 // SPREAD))
    with torch.no_grad():
        linear.weight.copy_(torch.ones(8, 64) @ matrix.mT)  # all ones once it is mixed
    rows = torch.stack([torch.ones(64), -torch.ones(64)]) @ matrix.mT
    torch.testing.assert_close(Int8Linear(linear)(rows), rows @ linear.weight.mT, rtol=1e-5, atol=1e-4)


def test_one_loud_input_does_not_round_the_others_away() -> None:
    linear, _, _ = layer(width=256)
    rows = torch.randn(32, 256, generator=torch.Generator().manual_seed(0))
    rows[:, 7] = 100
    with torch.no_grad():
        linear.weight[:, 7] = 0  # what is left is what the others say
        assert float((Int8Linear(linear)(rows) - linear(rows)).norm() / linear(rows).norm()) < 0.2


def test_gradients_are_refused_rather_than_wrong() -> None:
    _, int8, rows = layer()
    with pytest.raises(ValueError, match="expected no gradients through int8 layers"):
        int8(rows.requires_grad_())
    model = quantized(tiny_model()[0])
    assert model(torch.ones(1, 4, dtype=torch.long)).logits.isfinite().all(), "with gradients switched on"


@pytest.mark.parametrize("width", [64, 192, 576, 99])
def test_a_row_does_not_depend_on_its_neighbours(width: int) -> None:
    _, int8, rows = layer(width)
    whole = int8(rows)
    for first, stop in ((0, 1), (17, 18), (ROWS - 1, ROWS), (0, 3), (100, 133), (5, ROWS)):
        assert torch.equal(int8(rows[first:stop]), whole[first:stop])
    order = torch.randperm(ROWS, generator=torch.Generator().manual_seed(0))
    assert torch.equal(int8(rows[order]), whole[order])
    louder = rows.clone()
    louder[1:] *= 1_000
    assert torch.equal(int8(louder)[:1], whole[:1])
    assert torch.equal(int8(rows[:6].view(2, 3, -1)), whole[:6].view(2, 3, -1)), "any shape of batch"
    assert int8(torch.zeros(1, width)).isfinite().all()


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


def test_what_cannot_be_rounded_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="quantize: expected int8 or none, got 'int4'"):
        load_model("smollm2-135m-instruct", quantize="int4")  # type: ignore[arg-type]
    monkeypatch.setattr("keepset.models.quantize.ENGINE", "none")
    with pytest.raises(ValueError, match=r"expected torch with none's int8 products .*leave quantize out here"):
        quantized(tiny_model()[0])


def test_which_is_faster_is_measured() -> None:
    state = torch.random.get_rng_state()
    assert speedup(rows=32, width=64, out=64, rounds=1) > 0
    assert torch.equal(torch.random.get_rng_state(), state)
    assert quantization(bench_model("tiny", "int8")[0]) == "int8"
