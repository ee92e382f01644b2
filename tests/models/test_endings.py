"""What ends an answer, on a byte-level tokenizer with a chat template."""

from transformers import LlamaConfig, LlamaForCausalLM

from keepset.models.endings import line_ends, spoken, turn_ends
from tests.tokenizers import byte_tokenizer


def test_a_turn_ends_with_what_model_and_tokenizer_say() -> None:
    model = LlamaForCausalLM(
        LlamaConfig(vocab_size=400, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2)
    )
    tokenizer = byte_tokenizer()
    tokenizer.eos_token = "<|end|>"
    model.generation_config.eos_token_id = [7, 8]
    assert turn_ends(model, tokenizer) == {1, 7, 8}
    model.generation_config.eos_token_id = 7
    assert turn_ends(model, tokenizer) == {1, 7}
    model.generation_config.eos_token_id = None
    tokenizer.eos_token = None
    assert turn_ends(model, tokenizer) == frozenset()


def test_a_line_ends_with_any_token_that_breaks_it() -> None:
    tokenizer = byte_tokenizer()
    ends = line_ends(tokenizer)
    assert tokenizer("\n")["input_ids"][0] in ends
    assert tokenizer("code")["input_ids"][0] not in ends


def test_without_turns_an_answer_is_a_line() -> None:
    tokenizer = byte_tokenizer()
    tokens = tuple(tokenizer(" 4821.\nThe code")["input_ids"])
    assert spoken(tokenizer, tokens) == "4821.\nThe code"
    tokenizer.chat_template = None
    assert spoken(tokenizer, tokens) == "4821."
