"""oneDNN's products: the same numbers, gradients as before, and only where they can be used."""

import copy

import pytest
import torch
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from keepset.models import products
from keepset.models.fingerprint import fingerprint
from keepset.models.products import OneDnnLinear, by_faster_products
from keepset.models.quantize import Int8Linear, quantized
from keepset.paper.bench.models import tiny_model

pytestmark = pytest.mark.skipif(products.one_dnn_speedup() == 0, reason="torch without oneDNN")


@pytest.fixture
def worthwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "one_dnn_speedup", lambda: 2.0)


@pytest.fixture
def loaded(worthwhile: None) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    return tiny_model()


def by_one_dnn(width: int = 64, out: int = 96, bias: bool = True) -> tuple[nn.Linear, nn.Linear]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        plain = nn.Linear(width, out, bias)
    other = copy.deepcopy(plain)
    other.__class__ = OneDnnLinear
    return plain, other


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(1,), (3, 7), (2, 5, 4), (0, 5)])
def test_products_are_those_of_a_plain_layer(shape: tuple[int, ...], bias: bool) -> None:
    plain, other = by_one_dnn(bias=bias)
    rows = torch.randn(*shape, 64, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        assert other(rows).shape == plain(rows).shape
        torch.testing.assert_close(other(rows), plain(rows), rtol=1e-5, atol=1e-5)


def test_rows_that_do_not_lie_together_are_read_in_order() -> None:
    plain, other = by_one_dnn()
    rows = torch.randn(64, 10, generator=torch.Generator().manual_seed(1)).mT
    with torch.no_grad():
        torch.testing.assert_close(other(rows), plain(rows), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("of_weights", [True, False])
def test_gradients_go_through(of_weights: bool) -> None:
    found = []
    for layer in by_one_dnn():
        layer.requires_grad_(of_weights)
        rows = torch.randn(5, 64, generator=torch.Generator().manual_seed(1)).requires_grad_(not of_weights)
        layer(rows).square().sum().backward()
        found.append(layer.weight.grad if of_weights else rows.grad)
    assert found[0] is not None
    torch.testing.assert_close(found[1], found[0])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_a_layer_moved_to_another_type_multiplies_as_torch_does(dtype: torch.dtype) -> None:
    plain, other = (layer.to(dtype) for layer in by_one_dnn())
    rows = torch.ones(3, 64, dtype=dtype)
    with torch.no_grad():
        assert torch.equal(other(rows), plain(rows))


def test_a_model_keeps_its_weights_names_and_fingerprint(
    loaded: tuple[PreTrainedModel, PreTrainedTokenizerBase],
) -> None:
    model, tokenizer = loaded
    plain = copy.deepcopy(model)
    by_faster_products(model)
    linear = [module for module in model.modules() if isinstance(module, nn.Linear)]
    assert linear
    assert all(type(module) is OneDnnLinear for module in linear)
    assert model.state_dict().keys() == plain.state_dict().keys()
    assert fingerprint(model, tokenizer) == fingerprint(plain, tokenizer)
    ids = torch.arange(40)[None]
    with torch.inference_mode():
        torch.testing.assert_close(model(ids).logits, plain(ids).logits, rtol=1e-4, atol=1e-5)


def test_int8_layers_stay_what_they_are(loaded: tuple[PreTrainedModel, PreTrainedTokenizerBase]) -> None:
    model = by_faster_products(quantized(loaded[0]))
    kinds = {type(module) for module in model.modules() if isinstance(module, (nn.Linear, Int8Linear))}
    assert kinds == {Int8Linear, OneDnnLinear}


def test_nothing_changes_where_the_two_are_level(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "one_dnn_speedup", lambda: 1.1)
    model, _ = tiny_model()
    assert not any(isinstance(module, OneDnnLinear) for module in by_faster_products(model).modules())
