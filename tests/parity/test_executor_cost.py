"""What the fast executor computes, in tokens, and what it does not compute again."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from keepset.blocks import Example, KeepSet, Span
from keepset.interventions import Ask, Fast
from tests.parity.subject import EXACT, RAGGED, SHAPE, example, numbers


def test_tokens_computed_are_those_of_the_design() -> None:
    shape = SHAPE | {"hidden_size": 8, "num_attention_heads": 1, "num_key_value_heads": 1, "num_hidden_layers": 1}
    model = LlamaForCausalLM(LlamaConfig(**(shape | {"intermediate_size": 8, "max_position_embeddings": 512}))).eval()
    n, width, query = 32, 8, 4
    e = example([(i * width, (i + 1) * width) for i in range(n)], n * width + query, seed=5)
    everything = frozenset(range(n))
    keeps = [everything, *(everything - {i} for i in range(n)), *(frozenset({i}) for i in range(n))]
    executor = Fast(model)
    executor.read([Ask(e, keep, ((5,),)) for keep in keeps])
    assert len(keeps) * len(e.tokens) == 16_900
    # 4,740 without padding; short branches run together, padded to the longest of them.
    assert 4_640 <= executor.cost.tokens <= 4_740 * 1.1
    assert executor.cost.views == len(keeps)


def test_held_context_is_not_computed_again(llama: PreTrainedModel) -> None:
    executor = Fast(llama)
    with executor.hold([RAGGED]):
        executor.read([Ask(RAGGED, frozenset(range(4)), ((5,),))])
        before = executor.cost.copy()
        executor.read([Ask(RAGGED, frozenset(range(3)), ((5,),))])
        # Hiding the last block leaves the gap before it and everything earlier as it was: 18 to 21 are new.
        assert executor.cost.since(before).tokens == 4
        executor.read([Ask(RAGGED, frozenset(range(keep)), ((5,),)) for keep in (4, 3)])
        assert executor.cost.since(before).tokens == 4, "what was read once is known"
        executor.read([Ask(RAGGED, frozenset(range(3)), ((6,),))])
        assert executor.cost.since(before).tokens == 8, "but not of another continuation"


def test_a_prompt_cut_before_its_question_shares_the_context_that_is_held(llama: PreTrainedModel) -> None:
    cut = Example(RAGGED.tokens[:-1], RAGGED.blocks, Span(RAGGED.query.start, len(RAGGED.tokens) - 1), RAGGED.answer)
    said = (int(RAGGED.tokens[-1]), 5)
    everything: KeepSet = frozenset(range(4))
    asks = [Ask(cut, keep, (said,)) for keep in (everything, everything - {1}, frozenset({2}))]
    alone = numbers(Fast(llama).read(asks))
    executor = Fast(llama)
    with executor.hold([RAGGED, cut]):
        executor.generate([Ask(RAGGED, everything, ((5,),))], 3)
        before = executor.cost.copy()
        executor.read(asks[:1])
        spent = executor.cost.since(before).tokens
        shared = numbers(executor.read(asks))
    torch.testing.assert_close(shared, alone, atol=EXACT, rtol=0)
    assert spent == len(cut.tokens) - RAGGED.blocks[-1].stop + len(said) - 1, "only what stands after the last block"


def test_equal_keep_sets_run_once(llama: PreTrainedModel) -> None:
    executor = Fast(llama)
    found = executor.read([Ask(RAGGED, frozenset({1}), ((5,),))] * 3)
    assert executor.cost.views == 1
    assert found[0] == found[1] == found[2]
