"""A pruned document: a small cache that is asked many questions, on disk or in memory."""

from dataclasses import dataclass
from pathlib import Path

from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from keepset.pruning.cache import KeptCache, generate, read_after
from keepset.pruning.prompt import question_tokens
from keepset.pruning.report import PruneReport, Record, check_eviction
from keepset.pruning.saved import load_pruned, save_pruned

MAX_NEW_TOKENS = 64


@dataclass(frozen=True, eq=False)
class PrunedContext:
    """What ``Pruner.prune`` kept of a document."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    record: Record
    cache: KeptCache

    def ask(self, question: str, max_new_tokens: int = MAX_NEW_TOKENS) -> str:
        """The model's greedy answer, up to the end of its turn (without a chat template: of its line).

        The cache stays as it was, so questions do not see each other.
        """
        asked = question_tokens(self.tokenizer, question)
        text = self.decode(generate(self.model, self.cache, asked, max_new_tokens, self.stop_tokens))
        return text if self.tokenizer.chat_template else text.partition("\n")[0].strip()

    def logits(self, tokens: Tensor) -> Tensor:
        """(R, V) next-token logits of every one of ``tokens`` (R,), which follow the document."""
        return read_after(self.model, self.cache, tokens, rows=len(tokens))[0]

    def decode(self, tokens: tuple[int, ...]) -> str:
        return str(self.tokenizer.decode(list(tokens), skip_special_tokens=True)).strip()

    @property
    def stop_tokens(self) -> frozenset[int]:
        """What ends a turn."""
        ends = getattr(self.model.generation_config, "eos_token_id", None)
        ends = ends if isinstance(ends, list) else [ends]
        return frozenset(token for token in (*ends, self.tokenizer.eos_token_id) if token is not None)

    @property
    def text(self) -> str:
        """What was kept, as text for any other engine."""
        return self.record.text

    @property
    def kept(self) -> tuple[int, ...]:
        """Numbers of the kept blocks."""
        return tuple(block.number for block in self.record.blocks if block.kept)

    def report(self) -> PruneReport:
        """What was kept and why, and what it takes; raises ValueError when the rest is not really gone."""
        return check_eviction(self.record, self.cache)

    def save(self, folder: str | Path, model_name: str | None = None) -> None:
        """Everything but the model, as safetensors and JSON; complete or not at all.

        ``model_name`` is what ``load_model`` takes, so that ``keepset ask`` finds the model again.
        """
        name = model_name or str(self.model.name_or_path)
        save_pruned(Path(folder), self.record, self.cache, self.model, self.tokenizer, name)

    @classmethod
    def load(cls, folder: str | Path, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> "PrunedContext":
        """What ``save`` wrote, for the same model."""
        record, layers = load_pruned(Path(folder), model, tokenizer)
        cache = KeptCache(layers, record.positions, record.n_tokens)
        check_eviction(record, cache)
        return cls(model, tokenizer, record, cache)
