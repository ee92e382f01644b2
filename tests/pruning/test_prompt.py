"""With nothing dropped, asking a pruned document is generating from the whole prompt, whatever the question is."""

import copy
from typing import get_args

import pytest
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from keepset.models.endings import spoken
from keepset.policies.recency import Recency
from keepset.pruning import EvictionMode, PrunedContext, Pruner, prefill_kept, read_after
from keepset.pruning.cache import shortened
from keepset.text.example import text_example
from keepset.text.prompt import lay_out, prompt_tokens

Loaded = tuple[PreTrainedModel, PreTrainedTokenizerBase]
QUESTION = "What is the code for NARO3?"
QUESTIONS = (QUESTION, "4821?", '"What"?', " What?", "\nWhat?", "?")


def prune(loaded: Loaded, document: str, budget: float | int = 1.0, **options: object) -> PrunedContext:
    return Pruner(*loaded, Recency(), blocks=16, **options).prune(document, budget)  # type: ignore[arg-type]


@pytest.mark.parametrize("ending", ["", "\n", " \n\n"])
@pytest.mark.parametrize("chat", [True, False])
def test_nothing_dropped_answers_as_generate_does(loaded: Loaded, document: str, chat: bool, ending: str) -> None:
    model, tokenizer = loaded[0], copy.deepcopy(loaded[1])
    if not chat:
        tokenizer.chat_template = None
    pruned = prune((model, tokenizer), document + ending)
    for question in QUESTIONS:
        if chat:
            message = {"role": "user", "content": f"{document}{ending}\n\n{question}"}
            ids = tokenizer.apply_chat_template([message], add_generation_prompt=True, return_dict=True)["input_ids"]
        else:
            ids = tokenizer(f"{document}{ending}\n\nQuestion: {question}\nAnswer:")["input_ids"]
        written = model.generate(torch.tensor([ids]), max_new_tokens=8, do_sample=False)[0, len(ids) :]  # type: ignore[operator]
        assert pruned.ask(question, 8) == spoken(tokenizer, tuple(written.tolist()))
        cache, asked = pruned.before(question)
        assert cache is pruned.cache, "the document stays as it was read"
        assert [*lay_out(tokenizer, document + ending, 16).tokens.tolist(), *asked.tolist()] == list(ids)


@pytest.mark.parametrize("mode", get_args(EvictionMode))
@pytest.mark.parametrize("budget", [1.0, 0.5])
def test_an_end_that_the_question_writes_differently_is_read_again(
    loaded: Loaded, document: str, budget: float, mode: EvictionMode
) -> None:
    """The cache also holds the separator, as it is before a letter."""
    model, tokenizer = loaded
    pruned = prune(loaded, document, budget, mode=mode)
    further = torch.tensor(prompt_tokens(tokenizer, pruned.record.read, "a")[: pruned.cache.n_tokens + 2])
    positions = torch.cat([pruned.cache.positions, torch.arange(pruned.cache.n_tokens, len(further))])
    (cache,) = prefill_kept(model, [(further, positions)], mode)
    longer = PrunedContext(model, tokenizer, pruned.record, cache)
    for question in QUESTIONS:
        cut, asked = longer.before(question)
        assert cut.n_tokens == pruned.cache.n_tokens
        assert torch.equal(asked, pruned.before(question)[1])
        assert longer.ask(question, 8) == pruned.ask(question, 8)


def test_a_shortened_cache_is_that_of_the_beginning(loaded: Loaded, document: str) -> None:
    model, tokenizer = loaded
    long = prune(loaded, document)
    tokens = lay_out(tokenizer, document, 16).tokens
    n = long.cache.n_tokens - 7
    cache = shortened(long.cache, n)
    again, _ = read_after(model, cache, tokens[n:], rows=7)
    with torch.no_grad():
        expected = model(tokens[None]).logits[0, -7:]
    assert torch.allclose(again, expected, atol=1e-4)
    assert shortened(long.cache, long.cache.n_tokens) is long.cache


@pytest.mark.parametrize("chat", [True, False])
@pytest.mark.parametrize("blocks", ["sentence", "paragraph", 16])
def test_document_and_question_are_the_tokens_of_an_example(
    loaded: Loaded, document: str, chat: bool, blocks: str | int
) -> None:
    tokenizer = copy.deepcopy(loaded[1])
    if not chat:
        tokenizer.chat_template = None
    padded = f"  \n{document}\n "
    example = text_example(tokenizer, padded, QUESTION, "1", blocks)
    prompt = lay_out(tokenizer, padded, blocks, QUESTION)
    assert [*prompt.tokens.tolist(), *prompt.question.tolist()] == example.tokens.tolist()
    assert prompt.blocks == example.blocks
    assert [padded[start:stop] for start, stop in prompt.places] == list(example.block_texts)


def test_blocks_of_fixed_width_have_that_width(loaded: Loaded, document: str) -> None:
    prompt = lay_out(loaded[1], document, 16)
    assert {len(span) for span in prompt.blocks[:-1]} == {16}
    assert len(lay_out(loaded[1], document, 4_096).blocks) == 1


def test_own_spans_leave_the_rest_outside(loaded: Loaded, document: str) -> None:
    prompt = lay_out(loaded[1], document, [(28, 56), (56, 84)])
    assert len(prompt.blocks) == 2
    assert prompt.blocks[0].start > len(loaded[1]("<|start|>user\n").input_ids)


@pytest.mark.parametrize("empty", ["", " \n"])
def test_nothing_is_refused(loaded: Loaded, document: str, empty: str) -> None:
    with pytest.raises(ValueError, match="document: expected some text"):
        lay_out(loaded[1], empty, 16)
    with pytest.raises(ValueError, match="question: expected some text"):
        prune(loaded, document).ask(empty)
    with pytest.raises(ValueError, match="blocks: expected at least one span"):
        lay_out(loaded[1], "a  b", [(1, 2)])
