"""A pruned document: a small cache that is asked many questions, on disk or in memory."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from keepset.models.endings import spoken, turn_ends
from keepset.pruning.cache import KeptCache, generate, read_after, read_side_by_side, shortened
from keepset.pruning.report import PruneRecord, PruneReport, check_eviction
from keepset.pruning.saved import load_pruned, save_pruned
from keepset.text.example import answer_tokens
from keepset.text.prompt import common_length, document_tokens, encode, prompt_text, prompt_tokens, user_message

MAX_NEW_TOKENS = 64


@dataclass(frozen=True, eq=False)
class PrunedContext:
    """What ``Pruner.prune`` kept of a document."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    record: PruneRecord
    cache: KeptCache

    def ask(self, question: str, max_new_tokens: int = MAX_NEW_TOKENS) -> str:
        """The model's greedy answer, up to the end of its turn (without a chat template: of its line).

        With nothing dropped it is the answer to the document, a blank line and the question as one message, which is
        also what is read under ``text``, of the kept text. The cache
        stays as it was, so questions do not see each other.
        """
        cache, asked = self.before(question)
        ends = turn_ends(self.model, self.tokenizer)
        return spoken(self.tokenizer, generate(self.model, cache, asked, max_new_tokens, ends))

    def gives(self, question: str, answer: str) -> bool:
        """Whether the model would write ``answer``: each of its tokens is the most likely one, the labels' rule."""
        return self.gives_each([(question, answer)])[0]

    def gives_each(self, asked: Sequence[tuple[str, str]]) -> list[bool]:
        """``gives`` for several questions and answers, read side by side; none sees another."""
        begun = [self.before(question) for question, _ in asked]
        expected = [self._answer_tokens(*pair) for pair in asked]
        found: dict[int, bool] = {}
        for length in {cache.n_tokens for cache, _ in begun}:  # one, unless a question changed how the document ends
            rows = [i for i, (cache, _) in enumerate(begun) if cache.n_tokens == length]
            tokens = [torch.cat([begun[i][1], torch.tensor(expected[i][:-1], dtype=torch.long)]) for i in rows]
            read = read_side_by_side(self.model, begun[rows[0]][0], tokens, [len(expected[i]) for i in rows])
            found |= {i: logits.argmax(-1).tolist() == expected[i] for i, logits in zip(rows, read, strict=True)}
        return [found[i] for i in range(len(asked))]

    def _answer_tokens(self, question: str, answer: str) -> list[int]:
        prompt, _ = prompt_text(self.tokenizer, self.record.read, question)
        return list(answer_tokens(self.tokenizer, prompt, encode(self.tokenizer, prompt)[0], answer))

    def before(self, question: str) -> tuple[KeptCache, Tensor]:
        """What is left of the document before ``question``, and the (Q,) tokens that go on from there.

        Should the question change how the last tokens of the document are written, those are let go and read again
        as they are now: the prompt is always the whole one's, whatever was asked.
        """
        whole = prompt_tokens(self.tokenizer, self.record.read, question)
        cut = min(common_length(whole, self._document_tokens), self.cache.n_tokens)
        return shortened(self.cache, cut), torch.tensor(whole[cut:])

    @cached_property
    def _document_tokens(self) -> list[int]:
        return document_tokens(self.tokenizer, self.record.read)

    def logits(self, tokens: Tensor) -> Tensor:
        """(R, V) next-token logits of every one of ``tokens`` (R,), which follow the document."""
        return read_after(self.model, self.cache, tokens, rows=len(tokens))[0]

    @property
    def text(self) -> str:
        """What was kept, as text for any other engine."""
        return self.record.text

    def messages(self, question: str) -> list[dict[str, str]]:
        """The kept text and a question as a chat in OpenAI's form, for any other engine.

        What ``ask`` reads under the mode ``text``, in the model's own chat template.
        """
        return [{"role": "user", "content": user_message(self.text, question)}]

    @property
    def kept(self) -> tuple[int, ...]:
        """Numbers of the kept blocks."""
        return tuple(block.number for block in self.record.blocks if block.kept)

    @property
    def read_share(self) -> str:
        """What answers are read from. Whether a dropped block was needed cannot be known without reading it."""
        blocks = self.record.blocks
        share = sum(block.tokens for block in blocks if block.kept) / sum(block.tokens for block in blocks)
        return f"answered from {100 * share:.0f} % of the document's tokens: {len(self.kept)} of {len(blocks)} blocks"

    def report(self) -> PruneReport:
        """What was kept and why, and what it takes; raises ValueError when the rest is not really gone."""
        return check_eviction(self.record, self.cache)

    def save(self, folder: str | Path, model_name: str | None = None, force: bool = False) -> None:
        """Everything but the model, as safetensors and JSON; complete or not at all.

        ``model_name`` is what ``load_model`` takes, so that ``keepset ask`` finds the model again. An earlier pruned
        document is replaced with ``force`` alone.
        """
        name = model_name or str(self.model.name_or_path)
        save_pruned(Path(folder), self.record, self.cache, self.model, self.tokenizer, name, force)

    @classmethod
    def load(cls, folder: str | Path, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> "PrunedContext":
        """What ``save`` wrote, for the same model."""
        record, layers = load_pruned(Path(folder), model, tokenizer)
        cache = KeptCache(layers, record.positions, record.tokens_read)
        check_eviction(record, cache)
        return cls(model, tokenizer, record, cache)
