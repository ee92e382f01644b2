"""How much of a question's surprise a text explains: against the reference, on tiny real models."""

import pytest
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from keepset.interventions import Ask, Fast, Reference
from keepset.labels.about import (
    SMOLLM2_THRESHOLD,
    UNKNOWN_MODEL_THRESHOLD,
    about_threshold,
    question_example,
    question_share,
)
from keepset.models.bundled import fetched
from keepset.models.loading import load_model
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
    example = question_example(tokenizer, CONTEXT, question)
    said = tokenizer.decode(list(example.answer))
    assert "".join(said.split()) == "".join(question.split())
    before = tokenizer.decode(example.tokens.tolist())
    assert "3390." in before
    assert len(example.blocks) == 3
    assert example.query.start >= example.blocks[-1].stop


def test_the_share_is_that_of_the_reference(model: PreTrainedModel) -> None:
    tokenizer = byte_tokenizer()
    example = question_example(tokenizer, CONTEXT, QUESTION)
    reference = Reference(model)
    with_text, without = (
        sum(reference.read([Ask(example, keep, (example.answer,))])[0][0].log_probs[0])
        for keep in (frozenset({0, 1, 2}), frozenset[int]())
    )
    share = question_share(Fast(model), tokenizer, CONTEXT, QUESTION)
    assert share == pytest.approx(1 - with_text / without, abs=1e-5)
    assert share < 1


def test_thresholds() -> None:
    assert about_threshold("smollm2-135m-instruct") == SMOLLM2_THRESHOLD
    assert about_threshold("somebody-elses-7b") == UNKNOWN_MODEL_THRESHOLD


@pytest.mark.skipif(fetched("smollm2-135m-instruct") is None, reason="the bundled model is not on this machine")
def test_a_text_knows_its_questions() -> None:
    model, tokenizer = load_model("smollm2-135m-instruct")
    text = "The harbour of Skelvik has a lighthouse. Its first keeper was Ingrid Solberg. A ferry goes to Tarn."
    own = question_share(Fast(model), tokenizer, text, "Who was the first keeper of the lighthouse of Skelvik?")
    other = question_share(Fast(model), tokenizer, text, "Which enzymes break down lactose in the gut?")
    assert own > SMOLLM2_THRESHOLD > other
