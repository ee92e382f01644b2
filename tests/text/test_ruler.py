"""Long documents: exact lengths, and evidence blocks from whose tokens alone every question can be answered."""

import re
from collections import Counter
from functools import cache
from typing import Literal

import numpy as np
import pytest
import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from keepset import seeds
from keepset.text.document import NOISE, Document, Question, token_counter
from keepset.text.long_context import LONG_CONTEXT_TASKS, document_seed, sample_documents
from keepset.text.register_log import WORDINGS, register_log
from tests.tokenizers import real_tokenizer

pytestmark = pytest.mark.long

CHAT = (
    "{% for m in messages %}<|start|>{{ m['role'] }}\n{{ m['content'] }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)
SEED = seeds.EVALUATION.seed(0)


def trained_tokenizer(chat: bool) -> PreTrainedTokenizerFast:
    """Byte-level BPE that joins a full stop with the line break after it, as Qwen's does."""
    tokenizer = Tokenizer(models.BPE())
    words = Regex(r" ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(words, "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=["<|start|>", "<|end|>", "<bos>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    needle = "One of the special magic numbers for spicy-otter is: 4417302."
    tokenizer.train_from_iterator(
        [f"{NOISE}\n{needle}\nRegister R17 is now set to 4821.\nVAR ABC = 12345"] * 9, trainer
    )
    if not chat:
        bos = [("<bos>", tokenizer.token_to_id("<bos>"))]
        tokenizer.post_processor = processors.TemplateProcessing(single="<bos> $A", special_tokens=bos)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, chat_template=CHAT if chat else None)


TOKENIZERS = {"chat": trained_tokenizer(chat=True), "plain": trained_tokenizer(chat=False)}


@pytest.fixture(params=[*TOKENIZERS, "smollm2-135m-instruct"])
def tokenizer(request: pytest.FixtureRequest) -> PreTrainedTokenizerFast:
    if request.param in TOKENIZERS:
        return TOKENIZERS[request.param]
    return real_tokenizer(request.param)  # type: ignore[return-value]


@cache
def documents(
    task: str, tokenizer: PreTrainedTokenizerFast, length: int, blocks: Literal["line"] | int
) -> list[Document]:
    """Written once for all tests. Of the short ones there are three; a long one has more questions than two of them."""
    return sample_documents(task, tokenizer, SEED, length, 3 if length == 512 else 1, blocks)


def say(tokenizer: PreTrainedTokenizerFast, ids: object) -> str:
    return str(tokenizer.decode(ids, clean_up_tokenization_spaces=False))


def evidence_text(tokenizer: PreTrainedTokenizerFast, question: Question) -> str:
    """What the evidence blocks say, read from their tokens; a bar where something is left out."""
    parts, previous = [], None
    for i in sorted(question.evidence):
        span = question.blocks[i]
        parts += ["" if previous == i - 1 else "|", say(tokenizer, question.tokens[span.start : span.stop])]
        previous = i
    return "".join(parts)


def answer(task: str, question: str, text: str) -> tuple[str, ...]:
    """An oracle: the answer to ``question`` from ``text``."""
    if task.startswith("register_log"):
        (name,) = re.findall(r"register (R\d+) set", question)
        return (re.findall(rf"\b{name} (?:{'|'.join(WORDINGS)}) (\d+)", text)[-1],)
    if task == "variable_tracking":
        (value,) = re.findall(r"assigned the value (\d+)", question)
        (name,) = re.findall(rf"\b([A-Z]+) = {value}\b", text)
        names = [name]
        while found := re.findall(rf"\b([A-Z]+) = VAR {names[-1]}\b", text):
            names += found
        return tuple(names)
    (key,) = re.findall(r"number for (\S+) mentioned", question)
    return tuple(re.findall(rf"{key} is: (\d+)", text))


def answer_without(task: str, question: Question, block: int) -> tuple[str, ...] | None:
    """What the oracle says from all other blocks; None where it finds nothing."""
    text = "".join("|" if i == block else found for i, found in enumerate(question.block_texts))
    try:
        return answer(task, question.question, text)
    except (IndexError, ValueError):
        return None


@pytest.mark.parametrize("task", LONG_CONTEXT_TASKS)
@pytest.mark.parametrize("length", [512, 1024, 2048])
def test_every_question_can_be_answered_from_its_evidence_alone(
    task: str, length: int, tokenizer: PreTrainedTokenizerFast
) -> None:
    even = documents(task, tokenizer, length, 32)
    for document in even:
        assert len(document.blocks) == length // 32
        assert {len(span) for span in document.blocks} == {32}
    lines = documents(task, tokenizer, length, "line")
    for document in lines:
        assert length - 2 * max(len(span) for span in document.blocks) < sum(map(len, document.blocks)) <= length
        assert document.text.endswith("\n")
        asked = document.questions[document.asked]
        assert list(asked.block_texts) == document.text.splitlines(keepends=True)
        assert all(
            len(question.evidence) == (5 if task == "variable_tracking" else 1) for question in document.questions
        )
    for document in (*even, *lines):
        assert document.blocks[-1].stop == len(document.tokens)
        assert document.blocks[0].start > 0, "the instruction is always visible"
        for question in document.questions[:20]:
            assert torch.equal(question.tokens[: len(document.tokens)], document.tokens)
            assert question.query.start == len(document.tokens)
            assert "".join(question.block_texts) == document.text
            found = answer(task, question.question, evidence_text(tokenizer, question))
            assert found == question.answers
            for i in question.evidence:
                assert answer_without(task, question, i) != question.answers, "every evidence block is needed"
            assert say(tokenizer, question.answer) == f" {' '.join(found)}"
            asked = say(tokenizer, question.tokens[question.query.start :])
            assert question.question in asked
            assert question.answers[0] not in asked
            assert question.evidence <= document.evidence


@pytest.mark.parametrize("task", LONG_CONTEXT_TASKS)
@pytest.mark.parametrize("blocks", ["line", 32])
def test_blocks_say_their_text(task: str, blocks: Literal["line"] | int, tokenizer: PreTrainedTokenizerFast) -> None:
    for document in documents(task, tokenizer, 512, blocks):
        question = document.questions[document.asked]
        for span, text in zip(question.blocks, question.block_texts, strict=True):
            assert say(tokenizer, question.tokens[span.start : span.stop]) == text


@pytest.mark.parametrize("task", LONG_CONTEXT_TASKS)
def test_a_document_depends_on_its_seed_and_number_alone(task: str) -> None:
    tokenizer = TOKENIZERS["chat"]
    three = documents(task, tokenizer, 512, "line")
    two = sample_documents(task, tokenizer, SEED, 512, n=2)
    assert [document.text for document in three[:2]] == [document.text for document in two]
    assert [document.asked for document in three[:2]] == [document.asked for document in two]
    other = sample_documents(task, tokenizer, seeds.ROUTER_DOCUMENTS.seed(0), 512, n=3)
    assert not {document.text for document in three} & {document.text for document in other}


def test_how_many_questions_a_document_has() -> None:
    tokenizer = TOKENIZERS["chat"]

    def count(task: str, length: int) -> int:
        return len(documents(task, tokenizer, length, "line")[0].questions)

    assert [count(task, 512) for task in ("single", "multikey", "variable_tracking")] == [1, 4, 1]
    assert count("multikey_lines", 1024) > 12
    assert [count("register_log", length) for length in (512, 1024, 2048, 4096)] == [4, 8, 16, 16]


def test_one_register_is_written_twice_and_the_last_write_wins() -> None:
    for document in sample_documents("register_log", TOKENIZERS["chat"], SEED, 2048, n=5):
        writes = re.findall(rf"Register (R\d+) (?:{'|'.join(WORDINGS)}) (\d+)", document.text)
        assert len(writes) == 17
        stale, current = [value for name, value in writes if name == asked_register(document)]
        question = document.questions[document.asked]
        assert question.answers == (current,)
        assert stale not in evidence_text(TOKENIZERS["chat"], question)


def test_no_word_tells_a_correction_from_a_first_write() -> None:
    """Over many documents the words of corrections are those of first writes, as often."""
    counts = {again: Counter[str]() for again in (False, True)}
    count = token_counter(TOKENIZERS["chat"])
    for i in range(200):
        draft = register_log(np.random.default_rng((SEED, i)), 512, count)
        seen: set[str] = set()
        for name, words in re.findall(r"Register (R\d+) (\D+) \d+", "\n".join(needle.line for needle in draft.needles)):
            counts[name in seen][words] += 1
            seen.add(name)
    first, again = (counts[kind] for kind in (False, True))
    assert set(first) == set(again) == set(WORDINGS)
    assert again.total() == 200
    for words in WORDINGS:
        assert first[words] / first.total() == pytest.approx(1 / len(WORDINGS), abs=0.1)
        assert again[words] / again.total() == pytest.approx(1 / len(WORDINGS), abs=0.1)


def test_documents_of_another_task_or_length_have_seeds_of_their_own() -> None:
    found = {
        (task, length): document_seed(seeds.EVALUATION, 1, task, length)
        for task in LONG_CONTEXT_TASKS
        for length in (512, 1024, 2048)
    }
    assert found["register_log_any", 512] == found["register_log", 512]
    others = {place: seed for place, seed in found.items() if place[0] != "register_log_any"}
    assert len(set(others.values())) == len(others)
    keys = [
        re.findall(r"numbers for (\S+) is: (\d+)", sample_documents("single", TOKENIZERS["chat"], seed, length)[0].text)
        for (task, length), seed in others.items()
        if task == "single"
    ]
    assert len({str(key) for key in keys}) == 3


def test_the_control_asks_any_register_of_the_same_documents() -> None:
    log, control = (
        sample_documents(task, TOKENIZERS["chat"], SEED, 512, n=20) for task in ("register_log", "register_log_any")
    )
    assert [document.text for document in log] == [document.text for document in control]
    assert {document.asked for document in log} == {0}
    assert {document.asked for document in control} == set(range(4))


def asked_register(document: Document) -> str:
    return re.findall(r"register (R\d+)", document.questions[document.asked].question)[0]


def test_multikey_asks_any_of_its_keys() -> None:
    documents = sample_documents("multikey", TOKENIZERS["chat"], SEED, 512, n=40)
    assert {document.asked for document in documents} == {0, 1, 2, 3}


def test_errors() -> None:
    tokenizer = TOKENIZERS["chat"]
    with pytest.raises(ValueError, match="unknown long-context task 'niah'; expected one of single, multikey"):
        sample_documents("niah", tokenizer, SEED, 512)
    with pytest.raises(ValueError, match=r"length: expected a multiple of 32 .*, got 500"):
        sample_documents("single", tokenizer, SEED, 500, blocks=32)
    with pytest.raises(ValueError, match="length: expected room for 5 needles, got 32 tokens"):
        sample_documents("variable_tracking", tokenizer, SEED, 32)
    with pytest.raises(ValueError, match="expected at least 256 tokens for two registers, got 128"):
        sample_documents("register_log", tokenizer, SEED, 128)
