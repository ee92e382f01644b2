"""Records are read back from the tokens alone, with two real fast tokenizers: words, and bytes with a chat template."""

import re

import numpy as np
import pytest
import torch
from transformers import PreTrainedTokenizerFast

from keepset.blocks import Example
from keepset.paper.testbed.tasks.records import (
    CODES,
    NAMES,
    Asked,
    RecordExample,
    nonce_records,
    sample_records,
    write_example,
)
from tests.tokenizers import CHAT, byte_tokenizer, real_tokenizer, word_tokenizer

SENTENCE = re.compile(r" ?The code for ([A-Z]{4}) is( now)? (\d{4})\. ?")


TOKENIZERS = {"bytes": byte_tokenizer(), "words": word_tokenizer()}


@pytest.fixture(params=[*TOKENIZERS, "smollm2-135m-instruct"])
def tokenizer(request: pytest.FixtureRequest) -> PreTrainedTokenizerFast:
    if request.param in TOKENIZERS:
        return TOKENIZERS[request.param]
    return real_tokenizer(request.param)


def say(tokenizer: PreTrainedTokenizerFast, ids: object) -> str:
    return tokenizer.decode(ids, clean_up_tokenization_spaces=False)


def read(tokenizer: PreTrainedTokenizerFast, example: RecordExample) -> list[tuple[str, bool, str]]:
    """(name, whether an update, code) of every block, read from its tokens."""
    found = []
    for span in example.blocks:
        text = say(tokenizer, example.tokens[span.start : span.stop])
        match = SENTENCE.fullmatch(text)
        assert match, text
        found.append((match[1], match[2] is not None, match[3]))
    return found


@pytest.mark.parametrize(("n_records", "stale"), [(1, 0), (16, 0), (16, 2), (7, 5), (64, 1)])
def test_examples_say_what_they_claim(tokenizer: PreTrainedTokenizerFast, n_records: int, stale: int) -> None:
    for example in sample_records(tokenizer, seed=3, n_records=n_records, stale=stale, n=4):
        records = read(tokenizer, example)
        assert len(records) == n_records
        query = say(tokenizer, example.tokens[example.query.start :])
        asked = re.search(rf"What is the code for ([A-Z]{{4}}){' now' if stale else ''}\?", query)
        assert asked, "what is asked of a name that was updated is its code now"
        assert query.endswith(f"The code for {asked[1]} is")
        writes = [i for i, (name, _, _) in enumerate(records) if name == asked[1]]
        assert len(writes) == stale + 1
        assert example.family == {frozenset({writes[-1]})}
        assert example.obsolete == set(writes[:-1])

        seen: set[str] = set()
        for name, update, _ in records:
            assert update == (name in seen)
            seen.add(name)
        codes = [code for _, _, code in records]
        assert len(set(codes)) == n_records

        answer = say(tokenizer, example.answer).strip()
        assert answer == codes[writes[-1]]
        candidates = [say(tokenizer, candidate).strip() for candidate in example.candidates]
        assert len(set(candidates)) == len(candidates) == max(4, stale + 1)
        assert example.answer in example.candidates
        inside = {answer, *(codes[i] for i in writes)}
        assert all(code in inside or code not in codes for code in candidates)
        assert inside <= set(candidates)


def test_blocks_follow_one_another_and_the_rest_is_always_visible(tokenizer: PreTrainedTokenizerFast) -> None:
    (example,) = sample_records(tokenizer, seed=0, n_records=8)
    for left, right in zip(example.blocks, example.blocks[1:], strict=False):
        assert left.stop == right.start
    assert example.query.start == example.blocks[-1].stop
    prefix = say(tokenizer, example.tokens[: example.blocks[0].start])
    assert "code" not in prefix
    if tokenizer.chat_template:
        assert prefix.endswith("user\n")
    special = not tokenizer.chat_template
    assert tokenizer(example.text, add_special_tokens=special)["input_ids"] == example.tokens.tolist()


def test_the_answer_continues_the_tokens(tokenizer: PreTrainedTokenizerFast) -> None:
    (example,) = sample_records(tokenizer, seed=0, n_records=8)
    whole = tokenizer(
        f"{example.text}{say(tokenizer, example.answer)}", add_special_tokens=not tokenizer.chat_template
    )["input_ids"]
    assert whole == [*example.tokens.tolist(), *example.answer]


def test_an_example_depends_on_the_seed_and_its_number_only() -> None:
    tokenizer = TOKENIZERS["bytes"]
    first, second = sample_records(tokenizer, seed=5, n_records=8, n=2)
    assert torch.equal(first.tokens, sample_records(tokenizer, seed=5, n_records=8)[0].tokens)
    assert not torch.equal(first.tokens, second.tokens)
    assert first.text != sample_records(tokenizer, seed=6, n_records=8)[0].text


def test_the_queried_record_stands_anywhere() -> None:
    examples = sample_records(TOKENIZERS["words"], seed=0, n_records=4, n=60)
    places = np.bincount([next(iter(example.evidence)) for example in examples], minlength=4)
    assert places.min() >= 5
    gold = np.bincount([example.candidates.index(example.answer) for example in examples], minlength=4)
    assert gold.min() >= 5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_records": 0}, "n_records: expected at least 1, got 0"),
        ({"n_records": 4, "stale": -1}, "stale: expected at least 0, got -1"),
        ({"n_records": 4, "n": -1}, "n: expected at least 0, got -1"),
        ({"n_records": 10_000}, f"n_records: expected at most {min(NAMES.keys, len(CODES) - 4)}"),
        ({"n_records": 4, "stale": 4}, "5 records of the queried key do not fit beside another key in 4 blocks"),
    ],
)
def test_impossible_requests(arguments: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sample_records(TOKENIZERS["bytes"], seed=0, **arguments)


def test_a_template_that_changes_the_message_is_refused() -> None:
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = CHAT.replace("m['content']", "m['content'] | upper")
    with pytest.raises(ValueError, match="chat template to contain the user's message once, unchanged"):
        sample_records(tokenizer, seed=0, n_records=2)


def test_nonce_records_are_records_of_the_same_length_with_new_names_and_codes(
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    example = sample_records(tokenizer, 3, 8, stale=2)[0]
    replacements = nonce_records(tokenizer, seed=5, alternatives=2)
    first, second = replacements(example)
    assert replacements(example) == [first, second], "the same example gets the same nonces"
    assert first != second
    written = SENTENCE.findall(example.text)
    for tokens, span in zip(first, example.blocks, strict=True):
        assert len(tokens) == span.stop - span.start
        found = SENTENCE.search(tokenizer.decode(tokens))
        assert found is not None
        assert found[1] not in {name for name, _, _ in written}
        assert found[3] not in {code for _, _, code in written}


def test_a_record_whose_name_is_a_word_has_a_nonce_too() -> None:
    tokenizer = real_tokenizer("smollm2-135m-instruct")
    sentences = ["The code for NARO is 4821.", "The code for HAVE is 7593."]
    example = write_example(tokenizer, sentences, Asked("NARO", 4821, [4821, 7593]), frozenset({0}))
    made_up, word = (len(span) for span in example.blocks)
    assert word < made_up, "few other names are so short"
    for seed in range(5):
        ((first, second),) = nonce_records(tokenizer, seed, alternatives=1)(example)
        assert (len(first), len(second)) == (made_up, word)
        assert "HAVE" not in tokenizer.decode(second)


def test_a_nonce_needs_a_record() -> None:
    tokenizer = TOKENIZERS["bytes"]
    example = sample_records(tokenizer, 3, 4)[0]
    span = example.blocks[0]
    broken = Example(torch.full_like(example.tokens, 50), (span,), example.query, example.answer)
    with pytest.raises(ValueError, match="nonce: expected a record such as"):
        nonce_records(tokenizer, seed=0)(broken)
    with pytest.raises(ValueError, match="alternatives: expected at least 1, got 0"):
        nonce_records(tokenizer, seed=0, alternatives=0)
