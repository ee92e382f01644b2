"""Records in natural language: one fact per sentence, a question at the end (paper, Section 7).

prefix     <|im_start|>user
block 0    The code for NARO is 4821.
block 1    The code for BELU is 3390.
block 2    The code for NARO is now 7154.
query      What is the code for NARO now? <|im_end|> ... The code for NARO is
answer     7154          candidates 7154, 4821, 9026, 1183          family {{2}}; block 0 is obsolete
"""

import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase

from keepset.blocks import Example, KeepSet, Span
from keepset.paper.testbed.tasks.groups import sample_groups
from keepset.paper.testbed.tasks.sheet import distinct_keys
from keepset.paper.testbed.tasks.vocabulary import Vocabulary
from keepset.text.prompt import chat_prompt, check_tokenizer, continuation, tokenise

SYLLABLES = tuple(a + b for a in "BDFGHJKLMNPRSTVWZ" for b in "AEIOU")
RECORD = re.compile(r"(The code for )[A-Z]+( is(?: now)? )[0-9]+")
CODES = range(1000, 10_000)
"""All of one length, so that no candidate is the beginning of another."""

NAMES = Vocabulary(families=len(SYLLABLES), members=len(SYLLABLES), values=len(CODES))
"""A name is two syllables, as a synthetic key is a family and a member."""
CANDIDATES = 4
"""Answers to choose from, the gold one among them; more where more values of a name are obsolete."""


@dataclass(frozen=True)
class RecordExample(Example):
    """An example with what forced choice needs, and its text."""

    candidates: tuple[tuple[int, ...], ...] = ()
    """Token ids of the answers to choose from, the gold one among them, in random order."""
    text: str = ""
    """What ``tokens`` says, without a leading token the tokenizer adds by itself."""
    sentences: tuple[str, ...] = ()
    """What each block says."""
    obsolete: KeepSet = frozenset()
    """Blocks that hold earlier values of the queried name."""


def sample_records(
    tokenizer: PreTrainedTokenizerBase,
    seed: int,
    n_records: int,
    stale: int = 0,
    n: int = 1,
    first: int = 0,
    before: str = "",
) -> list[RecordExample]:
    """``n`` examples of ``n_records`` sentences; the queried name is written ``stale`` times before its current value.

    With ``stale`` 0 every name is written once. Otherwise about half of the sentences update earlier ones, also of
    other names, so that "now" does not give the queried record away. Wrong candidates are the obsolete values,
    then codes from outside the context: with codes from inside, the answer could be found by elimination.
    Example i depends on ``seed`` and i only; ``first`` is the number of the first one. ``before`` is a sentence that
    stands before the records and is none.
    """
    _check(tokenizer, n_records, stale, n)
    return [
        _sample(tokenizer, np.random.default_rng((seed, i)), n_records, stale, before) for i in range(first, first + n)
    ]


def nonce_records(
    tokenizer: PreTrainedTokenizerBase, seed: int, alternatives: int = 3
) -> Callable[[Example], list[list[list[int]]]]:
    """What to overwrite records with: other records of equal token length, new names and codes.

    Gives, per example, ``alternatives`` lists of one token sequence per block; their effects are averaged, so
    that no single nonce decides. Names and codes of the context are never reused.
    """
    if alternatives < 1:
        raise ValueError(f"alternatives: expected at least 1, got {alternatives}")

    def replacements(example: Example) -> list[list[list[int]]]:
        rng = np.random.default_rng((seed, zlib.crc32(example.tokens.numpy().tobytes())))
        whole = str(tokenizer.decode(example.tokens))
        sentences = [str(tokenizer.decode(example.tokens[span.start : span.stop])) for span in example.blocks]
        return [
            [
                _nonce(tokenizer, rng, sentence, span.stop - span.start, whole)
                for sentence, span in zip(sentences, example.blocks, strict=True)
            ]
            for _ in range(alternatives)
        ]

    return replacements


NONCE_DRAWS = 20_000
"""Draws before giving up on a nonce of the right token length: few names are words, and so one token, as HAVE is."""


def _nonce(
    tokenizer: PreTrainedTokenizerBase, rng: np.random.Generator, sentence: str, length: int, whole: str
) -> list[int]:
    """The tokens of ``sentence`` with a name and a code that ``whole`` does not hold."""
    if not RECORD.search(sentence):
        raise ValueError(f"nonce: expected a record such as 'The code for NARO is 4821.', got {sentence!r}")
    for _ in range(NONCE_DRAWS):
        name, code = key_name(int(rng.integers(NAMES.keys))), str(rng.choice(CODES))
        if name in whole or code in whole:
            continue
        written = RECORD.sub(lambda found: f"{found[1]}{name}{found[2]}{code}", sentence)  # noqa: B023
        tokens: list[int] = tokenizer(written, add_special_tokens=False)["input_ids"]
        if len(tokens) == length:
            return tokens
    raise ValueError(f"nonce: found no other record of {length} tokens for {sentence!r} in {NONCE_DRAWS} draws")


def _sample(
    tokenizer: PreTrainedTokenizerBase,
    rng: np.random.Generator,
    n_records: int,
    stale: int,
    before: str,
) -> RecordExample:
    if stale:
        groups = sample_groups(rng, 1, n_records, 1, stale + 1, NAMES)
        keys = groups.keys[0, groups.group[0]].tolist()  # (N)
        queried = int(groups.keys[0, 0])
    else:
        keys = distinct_keys(rng, 1, n_records, NAMES.keys)[0].tolist()
        queried = keys[rng.integers(n_records)]
    codes = rng.permutation(CODES)[: n_records + CANDIDATES].tolist()
    writes = [i for i, key in enumerate(keys) if key == queried]
    current = writes.pop()

    sentences = []
    for i, (key, code) in enumerate(zip(keys, codes, strict=False)):
        verb = "is now" if key in keys[:i] else "is"
        sentences.append(f"The code for {key_name(key)} {verb} {code}.")
    wrong = [codes[i] for i in writes] + codes[n_records:]
    choices = rng.permutation([codes[current], *wrong[: max(CANDIDATES - 1, stale)]]).tolist()
    asked = Asked(key_name(queried), codes[current], choices)
    return write_example(tokenizer, sentences, asked, frozenset({current}), frozenset(writes), before)


@dataclass(frozen=True)
class Asked:
    """The question at the end."""

    name: str
    code: int
    choices: list[int]
    """Codes to choose from, ``code`` among them."""


def write_example(
    tokenizer: PreTrainedTokenizerBase,
    sentences: list[str],
    asked: Asked,
    evidence: KeepSet,
    obsolete: KeepSet = frozenset(),
    before: str = "",
) -> RecordExample:
    """Sentences and a question as tokens, one block a sentence."""
    said = [f"{sentence} " for sentence in sentences]
    now = " now" if obsolete else ""
    text, start = _prompt(tokenizer, before, said, asked.name, f"What is the code for {asked.name}{now}?")
    edges = accumulate((len(sentence) for sentence in said), initial=start)
    tokens, blocks = tokenise(tokenizer, text, list(pairwise(edges)))
    answers = {code: continuation(tokenizer, text, tokens, f" {code}") for code in asked.choices}
    return RecordExample(
        tokens=torch.tensor(tokens),
        blocks=blocks,
        query=Span(blocks[-1].stop, len(tokens)),
        answer=answers[asked.code],
        family=frozenset({evidence}),
        candidates=tuple(answers.values()),
        text=text,
        sentences=tuple(sentences),
        obsolete=obsolete,
    )


def key_name(key: int) -> str:
    """Two syllables."""
    return SYLLABLES[key // NAMES.members] + SYLLABLES[key % NAMES.members]


def _prompt(
    tokenizer: PreTrainedTokenizerBase, before: str, sentences: list[str], name: str, question: str
) -> tuple[str, int]:
    """Everything up to the answer, and where the first sentence starts. The answer's sentence is begun for the
    model, so that the next token is the code and forced choice compares codes, not ways to start a reply."""
    lead = f"{before} " if before else ""
    records = lead + "".join(sentences)
    opening = f"The code for {name} is"
    if not tokenizer.chat_template:
        return f"{records}\nQuestion: {question}\nAnswer: {opening}", len(lead)
    chat, start = chat_prompt(tokenizer, f"{records}\n{question}")
    return chat + opening, start + len(lead)


def _check(tokenizer: PreTrainedTokenizerBase, n_records: int, stale: int, n: int) -> None:
    check_tokenizer(tokenizer)
    for name, value, least in (("n_records", n_records, 1), ("stale", stale, 0), ("n", n, 0)):
        if value < least:
            raise ValueError(f"{name}: expected at least {least}, got {value}")
    most = min(NAMES.keys, len(CODES) - CANDIDATES)
    if n_records > most:
        raise ValueError(f"n_records: expected at most {most} (so many names and codes there are), got {n_records}")
