"""How much of a question's surprise a text explains: against the reference, on tiny real models."""

import itertools

import pytest
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from keepset.interventions import Ask, Fast, Reference
from keepset.labels.about import (
    GAINED,
    LIKELIER,
    NAMED,
    THRESHOLDS,
    UNKNOWN_MODEL_THRESHOLD,
    about_blocks,
    about_questions,
    about_threshold,
)
from keepset.labels.worth import MOST_NATS, Answer
from keepset.text.example import NOT_YET, text_example
from tests.labels.conftest import Loaded
from tests.tiny import tiny_llama
from tests.tokenizers import byte_tokenizer, real_tokenizer, word_tokenizer

CONTEXT = "The code for NARO is 4821. What is the code for BELU? It is 3390."
QUESTION = "What is the code for BELU?"


@pytest.fixture(scope="module")
def model() -> PreTrainedModel:
    return tiny_llama(positions=256)


@pytest.mark.parametrize(
    "tokenizer",
    [byte_tokenizer(), word_tokenizer(), real_tokenizer("smollm2-135m-instruct")],
    ids=["bytes", "words", "smollm2"],
)
@pytest.mark.parametrize("question", [QUESTION, f"  {QUESTION}\n", "Who?"])
def test_only_the_questions_own_tokens_are_read(tokenizer: PreTrainedTokenizerBase, question: str) -> None:
    example = text_example(tokenizer, CONTEXT, question, NOT_YET)
    assert example.asked is not None
    said = tokenizer.decode(example.tokens[example.asked.start : example.asked.stop].tolist())
    assert "".join(said.split()) == "".join(question.split())
    beginning = example.before_question
    assert "3390." in tokenizer.decode(beginning.tokens.tolist())
    assert beginning.answer == (*example.tokens[example.asked.start :].tolist(), *example.answer)
    assert len(beginning.blocks) == 3
    assert len(beginning.query) > 0


@pytest.mark.parametrize(
    ("question", "named"),
    [(QUESTION, 1.0), ("What zu is xi yo?", 0.0), ("What is it?", 1.0)],
    ids=["all of its words", "none", "only words that say nothing"],
)
def test_it_is_that_of_the_reference(model: PreTrainedModel, question: str, named: float) -> None:
    tokenizer = byte_tokenizer()
    example = text_example(tokenizer, CONTEXT, question, NOT_YET)
    assert example.asked is not None
    asked = tuple(example.tokens[example.asked.start : example.asked.stop].tolist())
    reference = Reference(model)
    with_text, without = (
        reference.read([Ask(example.before_question, keep, (asked,))])[0][0].log_probs[0]
        for keep in (frozenset({0, 1, 2}), frozenset[int]())
    )
    (about,) = about_questions(Fast(model), tokenizer, CONTEXT, [question])
    assert about.likelier == pytest.approx(1 - sum(with_text) / sum(without), abs=1e-5)
    assert about.named == named
    said = [word for word in ("code", "BELU", "zu", "xi", "yo") if word in question] or ["What", "is", "it"]
    ends = list(itertools.accumulate(len(tokenizer.decode([token])) for token in asked))
    gains = [0.0] * len(said)
    for i, end in enumerate(ends):
        for n, word in enumerate(said):
            if question.index(word) < end <= question.index(word) + len(word):
                gains[n] += with_text[i] - without[i]
    assert about.gained == pytest.approx(sum(min(max(gain, -MOST_NATS), MOST_NATS) for gain in gains), abs=1e-4)
    assert about.value == pytest.approx(LIKELIER * about.likelier + NAMED * about.named + GAINED * about.gained)


def test_words_are_the_same_by_their_first_letters_and_rare_ones_count_more(model: PreTrainedModel) -> None:
    text = "Ann collects it. Ann left."
    found = about_questions(Fast(model), byte_tokenizer(), text, ["Collection?", "Zu?", "Ann zu?", "Collection zu?"])
    assert [about.named for about in found[:2]] == [1.0, 0.0]
    assert 0 < found[2].named < found[3].named < 1, "Ann stands all over the text"


def test_each_block_for_itself(model: PreTrainedModel) -> None:
    """The block that says the question is what it points at; every block is read with the question alone."""
    tokenizer = byte_tokenizer()
    answer = Answer(text_example(tokenizer, CONTEXT, QUESTION, "3390"), Fast(model))
    found = about_blocks(answer, tokenizer)
    assert [about.named for about in found] == pytest.approx([found[0].named, 1.0, 0.0])
    assert 0 < found[0].named < 1
    kept = "What is the code for BELU? "
    (alone,) = about_questions(Fast(model), tokenizer, kept, [QUESTION])
    assert alone.named == 1.0
    reference = Reference(model)
    asked = tuple(answer.lead[: answer.n_asked])
    with_block, without = (
        reference.read([Ask(answer.beginning, keep, (asked,))])[0][0].log_probs[0]
        for keep in (frozenset({1}), frozenset[int]())
    )
    assert found[1].likelier == pytest.approx(1 - sum(with_block) / sum(without), abs=1e-5)


def test_questions_of_one_text_are_read_together(model: PreTrainedModel) -> None:
    tokenizer, questions = byte_tokenizer(), [QUESTION, "Zu xi yo?", "Who?"]
    together, apart = Fast(model), Fast(model)
    found = [about.value for about in about_questions(together, tokenizer, CONTEXT, questions)]
    singly = [about_questions(apart, tokenizer, CONTEXT, [question])[0].value for question in questions]
    assert found == pytest.approx(singly, abs=1e-5)
    assert together.cost.tokens < 0.6 * apart.cost.tokens


def test_thresholds() -> None:
    assert about_threshold("smollm2-135m-instruct") == THRESHOLDS["smollm2-135m-instruct"]
    assert about_threshold("somebody-elses-7b") == UNKNOWN_MODEL_THRESHOLD


def test_a_text_knows_its_questions(smollm2: Loaded) -> None:
    model, tokenizer = smollm2
    text = "The harbour of Skelvik has a lighthouse. Its first keeper was Ingrid Solberg. A ferry goes to Tarn."
    questions = [
        "Who was the first keeper of the lighthouse of Skelvik?",
        "Which enzymes break down lactose in the gut?",
    ]
    own, other = about_questions(Fast(model), tokenizer, text, questions)
    assert own.value > THRESHOLDS["smollm2-135m-instruct"] > other.value
