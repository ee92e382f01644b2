"""Captum and ContextCite on the same examples, each asked which record or sentence the answer came from.

Both are optional (``pip install 'keepset[peers]'``) and imported when first used. Each function returns another
function: example in, one score per record out. Both explain the same answer tokens that keepset scores. ``cut`` says
how an example is written: sentences of code records, unless the caller has others.
"""

import copy
import io
import re
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import version
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel, PreTrainedTokenizerBase

from keepset.paper.testbed.tasks.records import RecordExample


class Written(Protocol):
    """An example with its text."""

    @property
    def tokens(self) -> Tensor: ...
    @property
    def answer(self) -> tuple[int, ...]: ...
    @property
    def text(self) -> str: ...


class Pieces(NamedTuple):
    """The text of an example."""

    before: str
    sentences: list[str]
    after: str
    """From the last sentence to where the answer begins: ``between``, the question, the end of the prompt."""
    between: str
    question: str


Score = Callable[[Written], list[float]]
Cut = Callable[[Any], Pieces]
"""How the examples of a comparison are written."""

RECORD = re.compile(r"The code for [A-Z]+ is(?: now)? \d+\. ")
ABLATIONS = 64
"""ContextCite's default."""
BATCH_SIZES = (1, 4, 16)
"""Tried before the comparison; the fastest is used."""
IGNORED = -100
"""transformers' label of a token that is not predicted."""
BATCH_TOKENS = 4_096
"""Larger batches are not tried: ContextCite keeps the logits of every token, 0.2 MB each at 50,000 words."""


def record_pieces(example: RecordExample) -> Pieces:
    """Code records and the question after them."""
    sentences, before, after = split(example)
    question = re.search(r"[^\n]+?\?", after)
    if question is None:
        raise ValueError(f"records: expected a question after the last record, got {after!r}")
    return Pieces(before, sentences, after, "\n", question[0])


def captum_ablation(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, cut: Cut = record_pieces, read: "Rows | None" = None
) -> Score:
    """FeatureAblation through LLMAttribution, one feature per record: the log-probability lost without its text.

    It takes one variant per forward; there is no batch size to choose. ``read``: what was read of the same example
    before.
    """
    captum = load_captum()
    attribution = captum.LLMAttribution(
        captum.FeatureAblation(model if read is None else RememberingModel(read)), tokenizer
    )

    def score(example: Written) -> list[float]:
        before, sentences, after, *_ = cut(example)
        if tokenizer.encode(example.text) != example.tokens.tolist():
            raise ValueError("tokenizer: expected the text of an example to be its tokens; Captum adds others")
        # A function as template: a format string would read braces in the text as fields.
        features = captum.TextTemplateInput(lambda *records: before + "".join(records) + after, values=sentences)
        # forward_in_tokens=True, the default, is silently wrong for answers of several tokens on transformers 5.
        found = attribution.attribute(features, target=torch.tensor(example.answer), forward_in_tokens=False)
        return [float(value) for value in found.seq_attr]

    return score


@dataclass
class Ablated:
    """What ContextCite has read of one question. Its random halves have numbers: the first of many are those of few."""

    masks: Any = None
    """(``ABLATIONS``, N)"""
    logit_probs: Any = None
    """(``ABLATIONS``, A)"""

    def give(self, citer: Any, ablations: int) -> None:
        """Reads as many as it does by default, once; ``citer`` then has the first ``ablations`` of them."""
        if self.masks is None:
            self.masks, self.logit_probs = citer._masks, citer._logit_probs
        citer._cache["reg_masks"], citer._cache["reg_logit_probs"] = (
            read[:ablations] for read in (self.masks, self.logit_probs)
        )


def context_cite(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    batch_size: int,
    ablations: int = ABLATIONS,
    cut: Cut = record_pieces,
    sparing: bool = False,
    read: Ablated | None = None,
) -> Score:
    """A sparse linear model of the answer's log-odds, fitted to random halves of the records.

    ``sparing``: without the work that does not change its numbers, see ``SparingModel``. ``read``: what was read of the
    same example before, by this number of ablations or another.
    """
    drawn = ablations if read is None else ABLATIONS
    peer = load_context_cite()
    padded = copy.deepcopy(tokenizer)  # it sets the padding of the tokenizer it is given
    padded.padding_side = "left"

    class Records(peer.BaseContextPartitioner):  # type: ignore[name-defined]
        """Sources are the records themselves; ContextCite's own splitter wants downloaded data."""

        def __init__(self, records: list[str]) -> None:
            super().__init__("".join(records))
            self.records = records

        @property
        def num_sources(self) -> int:
            return len(self.records)

        def split_context(self) -> None:
            pass

        def get_source(self, index: int) -> str:
            return self.records[index]

        def get_context(self, mask: Any = None) -> str:
            return "".join(text for i, text in enumerate(self.records) if mask is None or mask[i])

    def score(example: Written) -> list[float]:
        _, sentences, _, between, question = cut(example)
        citer = peer.ContextCiter(
            SparingModel(model) if sparing else model,
            padded,
            "".join(sentences),
            question,
            num_ablations=drawn,
            batch_size=drawn if sparing else batch_size,
            prompt_template=f"{{context}}{between}{{query}}",
            partitioner=Records(sentences),
        )
        _, prompt = citer._get_prompt_ids(return_prompt=True)
        if not example.text.startswith(prompt):
            raise ValueError("ContextCite: expected its prompt to be the beginning of the example's text")
        opening = example.text[len(prompt) :]
        answer = str(tokenizer.decode(list(example.answer)))
        # It explains what the model wrote; here the answer is given, so that all sides explain the same one.
        citer._cache["output"] = example.text + answer
        if tuple(citer._response_ids[-len(example.answer) :]) != example.answer:
            raise ValueError("ContextCite: expected its response to end in the example's answer tokens")
        with quiet():
            if read is not None:
                read.give(citer, ablations)
            weights = citer.get_attributions(len(opening), len(opening) + len(answer), verbose=False)
        return [float(weight) for weight in weights]

    return score


class SparingModel:
    """A model as ContextCite calls it, asked only what ContextCite reads: the logits that predict the response.

    Rows that were drawn twice are read once and common beginnings once, without padding, loss and other logits. The
    numbers are the same; the cost is far below what its users have, so that it can be asked as much as other tools.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self.model = model
        self.device = model.device

    @torch.inference_mode()
    def __call__(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor) -> SimpleNamespace:
        rows = [tuple(ids[seen.bool()].tolist()) for ids, seen in zip(input_ids, attention_mask, strict=True)]
        read = int((labels[0] != IGNORED).sum()) + 1  # and the row before the response, which predicts its first token
        return SimpleNamespace(logits=torch.stack(Rows(self.model, read).logits(rows)))


class Rows:
    """Logits at the end of rows of tokens, each row read once and common beginnings once."""

    def __init__(self, model: PreTrainedModel, last: int) -> None:
        """``last``: so many of a row's tokens."""
        self.model, self.last = model, last
        self.cache, self.before = DynamicCache(config=model.config), tuple[int, ...]()
        self.found: dict[tuple[int, ...], Tensor] = {}

    @torch.inference_mode()
    def logits(self, rows: Sequence[tuple[int, ...]]) -> list[Tensor]:
        """(``last``, V) for each row."""
        for row in sorted(set(rows).difference(self.found)):
            shared = min(common_beginning(self.before, row), len(row) - self.last)
            self.cache.crop(shared - self.cache.get_seq_length())  # negative: so many are taken away
            tokens = torch.tensor([row[shared:]], device=self.model.device)
            self.found[row] = self.model(tokens, past_key_values=self.cache, logits_to_keep=self.last).logits[0]
            self.before = row
        return [self.found[row] for row in rows]


class RememberingModel:
    """A model as Captum calls it, that reads no row twice. Captum reads the logits of the answer; the others are 0."""

    def __init__(self, rows: Rows) -> None:
        self.rows, self.device = rows, rows.model.device

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> SimpleNamespace:
        (row,) = input_ids.tolist()
        (found,) = self.rows.logits([tuple(row)])
        return SimpleNamespace(logits=torch.cat([found.new_zeros(len(row) - len(found), found.shape[1]), found])[None])

    __call__ = forward


def common_beginning(one: Sequence[int], other: Sequence[int]) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def best_batch_size(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, example: RecordExample
) -> tuple[int, dict[int, float]]:
    """ContextCite's fastest batch size on one example, and the CPU seconds of as many ablations at each size."""
    sizes = [size for size in BATCH_SIZES if size == 1 or size * len(example.tokens) <= BATCH_TOKENS]
    seconds = {}
    for size in sizes:
        score = context_cite(model, tokenizer, size, ablations=max(sizes))
        started = time.process_time()
        score(example)
        seconds[size] = time.process_time() - started
    return min(seconds, key=lambda size: seconds[size]), seconds


def split(example: RecordExample) -> tuple[list[str], str, str]:
    """The records of an example as text, what stands before the first, and what stands after the last."""
    found = list(RECORD.finditer(example.text))
    if len(found) != len(example.blocks) or any(a.end() != b.start() for a, b in pairwise(found)):
        raise ValueError(f"records: expected {len(example.blocks)} in a row in the text, got {len(found)}")
    return [match[0] for match in found], example.text[: found[0].start()], example.text[found[-1].end() :]


@cache
def load_captum() -> Any:
    """``captum.attr``, or how to get it."""
    try:
        return import_module("captum.attr")
    except ImportError as error:
        raise missing("captum") from error


@cache
def load_context_cite() -> Any:
    """What is used of ``context_cite``, or how to get it. Importing it downloads a sentence splitter; not here."""
    try:
        with no_nltk_download():
            citer, partitioner = map(import_module, ("context_cite", "context_cite.context_partitioner"))
    except ImportError as error:
        raise missing("context-cite") from error
    return SimpleNamespace(ContextCiter=citer.ContextCiter, BaseContextPartitioner=partitioner.BaseContextPartitioner)


def missing(package: str) -> ValueError:
    return ValueError(
        f"{package} is not installed; the comparison with other tools needs: pip install 'keepset[peers]'"
    )


@contextmanager
def no_nltk_download() -> Iterator[None]:
    nltk: Any = import_module("nltk")
    download = nltk.download
    nltk.download = lambda *args, **kwargs: False
    try:
        yield
    finally:
        nltk.download = download


@contextmanager
def quiet() -> Iterator[None]:
    """Without ContextCite's progress bars and its warning that there is no GPU."""
    with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


def versions() -> dict[str, str]:
    """What was compared with."""
    return {package: version(package) for package in ("captum", "context-cite")}
