"""Records and chains of records say what they claim, in the tokenizers that are used."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerBase

from keepset.interventions.scorers import check_candidates
from keepset.paper.pretrained.audit import PREFIXES, sound
from keepset.paper.pretrained.examples import TITLES, draw, plain, task_seed
from keepset.paper.pretrained.settings import SETTINGS
from keepset.paper.testbed.tasks.record_chains import ChainExample, sample_record_chains
from keepset.paper.testbed.tasks.records import RecordExample, sample_records
from tests.tokenizers import byte_tokenizer, real_tokenizer, word_tokenizer

(SMOKE,) = SETTINGS["smoke"]
POINTER = re.compile(r"The code for ([A-Z]{4}) is the same as the code for ([A-Z]{4})\.")
VALUE = re.compile(r"The code for ([A-Z]{4}) is (\d{4})\.")


@pytest.fixture(params=["bytes", "words", "smollm2-135m-instruct", "qwen2.5-coder-1.5b-instruct"], scope="module")
def tokenizer(request: pytest.FixtureRequest) -> PreTrainedTokenizerBase:
    own = {"bytes": byte_tokenizer, "words": word_tokenizer}
    return plain(own[request.param]() if request.param in own else real_tokenizer(request.param))


def check_choices(tokenizer: PreTrainedTokenizerBase, example: RecordExample) -> None:
    check_candidates(example.candidates, example.answer)
    assert len(set(example.candidates)) == 4
    assert sound(tokenizer, example)


def test_spans_cut_exactly_the_records(tokenizer: PreTrainedTokenizerBase) -> None:
    for before in ("", *PREFIXES):
        for stale in (0, 2):
            for example in sample_records(tokenizer, 4, 16, stale, n=3, before=before):
                check_choices(tokenizer, example)
                assert example.text.startswith(before)
                lead = example.blocks[0].start - (tokenizer.bos_token is not None and tokenizer.chat_template is None)
                assert (lead > 0) == bool(before) or tokenizer.bos_token is not None
    for chain in sample_record_chains(tokenizer, 4, 16, n=3):
        check_choices(tokenizer, chain)


def test_a_span_that_is_off_by_a_token_is_not_sound(tokenizer: PreTrainedTokenizerBase) -> None:
    (example,) = sample_records(tokenizer, 4, 4)
    shifted = tuple(type(span)(span.start + (i == 1), span.stop) for i, span in enumerate(example.blocks))
    assert not sound(tokenizer, type(example)(**{**vars(example), "blocks": shifted}))


@given(seed=st.integers(0, 10_000), pairs=st.integers(4, 12))
def test_the_answer_of_two_hops_is_behind_the_pointer_alone(seed: int, pairs: int) -> None:
    (example,) = sample_record_chains(BYTES, seed, 2 * pairs)
    asked = re.search(r"What is the code for ([A-Z]{4})\?", example.text)
    assert asked
    pointers = {m[1]: m[2] for m in map(POINTER.fullmatch, example.sentences) if m}
    values = {m[1]: m[2] for m in map(VALUE.fullmatch, example.sentences) if m}
    assert len(pointers) == len(values) == pairs
    assert set(pointers.values()) == set(values), "every pointer leads somewhere, and to a record of its own"
    assert values[pointers[asked[1]]] == BYTES.decode(example.answer).strip()
    assert asked[1] not in example.sentences[example.value]
    assert POINTER.fullmatch(example.sentences[example.pointer])
    assert example.family == {frozenset({example.pointer, example.value})}
    inside = {BYTES.decode(candidate).strip() for candidate in example.candidates}
    assert inside <= set(values.values()), "a code from outside would give the chain away"


BYTES = plain(byte_tokenizer())


@given(seed=st.integers(0, 10_000), stale=st.integers(0, 3))
def test_one_candidate_is_right(seed: int, stale: int) -> None:
    (example,) = sample_records(BYTES, seed, 16, stale)
    check_candidates(example.candidates, example.answer)
    codes = [re.search(r"(\d{4})\.", sentence)[1] for sentence in example.sentences]  # type: ignore[index]
    candidates = [BYTES.decode(candidate).strip() for candidate in example.candidates]
    (current,) = example.evidence
    assert candidates.count(codes[current]) == 1
    written = {codes[i] for i in example.obsolete | example.evidence}
    assert {code for code in candidates if code in codes} == written, "wrong ones are obsolete or from outside"


def test_an_example_depends_on_its_number_alone() -> None:
    for task in TITLES:
        together = draw(SMOKE, task, 16, range(4))
        (later,) = draw(SMOKE, task, 16, range(2, 3))
        assert later.text == together[2].text
        assert draw(SMOKE, task, 16, range(1), learning=True)[0].text != together[0].text
    drawn = [task_seed(task, records, learning) for task in TITLES for records in (16, 128) for learning in (0, 1)]
    assert len(set(drawn)) == len(drawn)


def test_without_a_template_record_0_is_first() -> None:
    template = byte_tokenizer()
    assert sample_records(template, 0, 4)[0].blocks[0].start > 0
    assert sample_records(plain(template), 0, 4)[0].blocks[0].start == 0
    assert template.chat_template, "the original keeps its template"


@pytest.mark.parametrize("records", [6, 9])
def test_chains_need_room_for_every_candidate(records: int) -> None:
    with pytest.raises(ValueError, match=f"n_records: expected an even number, at least 8 .* got {records}"):
        sample_record_chains(BYTES, 0, records)


def test_chains_keep_what_a_record_example_has() -> None:
    (example,) = sample_record_chains(BYTES, 0, 16)
    assert isinstance(example, ChainExample)
    assert len(example.sentences) == len(example.blocks) == 16
