"""What the other tools are given is what they would have had."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from keepset.paper.bench.engine.peers import IGNORED, SparingModel, common_beginning
from keepset.paper.bench.engine.run import counting
from tests.tiny import tiny_llama

WORDS = st.integers(3, 60)


@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.lists(WORDS, min_size=1, max_size=12), min_size=1, max_size=6),
    st.lists(WORDS, min_size=1, max_size=4),
)
def test_a_sparing_model_says_what_the_model_says_of_padded_rows(prompts: list[list[int]], response: list[int]) -> None:
    model = tiny_llama()
    rows = [[*prompt, *response] for prompt in prompts]
    width = max(map(len, rows))
    missing = [width - len(row) for row in rows]
    tokens = torch.tensor([[0] * pad + row for pad, row in zip(missing, rows, strict=True)])
    seen = torch.tensor([[0] * pad + [1] * (width - pad) for pad in missing])
    labels = tokens.clone()
    labels[:, : -len(response)] = IGNORED
    with torch.inference_mode():
        positions = (seen.cumsum(-1) - 1).clamp(min=0)
        wanted = model(input_ids=tokens, attention_mask=seen, position_ids=positions).logits[:, -len(response) - 1 : -1]
    found = SparingModel(model)(input_ids=tokens, attention_mask=seen, labels=labels).logits
    # As ContextCite slices them: the rows that predict the response.
    torch.testing.assert_close(found[:, -len(response) - 1 : -1], wanted, rtol=1e-4, atol=1e-4)


def test_what_is_common_is_read_once() -> None:
    model = tiny_llama()
    tokens = torch.tensor([[5, 6, 7, 8, 9, 10], [5, 6, 7, 8, 9, 10], [5, 6, 7, 11, 9, 10]])
    labels = tokens.clone()
    labels[:, :-1] = IGNORED
    with counting(model) as read:
        SparingModel(model)(input_ids=tokens, attention_mask=torch.ones_like(tokens), labels=labels)
    assert sum(read) == 6 + 3


@pytest.mark.parametrize(("one", "other", "wanted"), [((), (1,), 0), ((1, 2), (1, 2), 2), ((1, 2, 3), (1, 3), 1)])
def test_common_beginning(one: tuple[int, ...], other: tuple[int, ...], wanted: int) -> None:
    assert common_beginning(one, other) == wanted
