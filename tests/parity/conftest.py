"""The models executors are compared on."""

import pytest
from transformers import PreTrainedModel

from tests.parity.subject import MODELS, build


@pytest.fixture(scope="module", params=MODELS)
def model(request: pytest.FixtureRequest) -> PreTrainedModel:
    return build(request.param)


@pytest.fixture(scope="module")
def llama() -> PreTrainedModel:
    return build("llama")
