"""What every integration does with texts: by themselves before a question, together with one."""

from collections.abc import Sequence

from keepset.compression.compressed import Compressed
from keepset.compression.compressor import Compressor, TextBudget, default_compressor

DEFAULT_BUDGET = 0.25


def compress_each(texts: Sequence[str], budget: TextBudget, compressor: Compressor | None) -> list[Compressed | None]:
    """Every text by itself, no question; None where there is no text."""
    ready = compressor or default_compressor()
    return [ready.compress(text, budget) if text.strip() else None for text in texts]


def compress_for(
    texts: Sequence[str], question: str, budget: TextBudget, compressor: Compressor | None
) -> list[Compressed | None]:
    """All texts together, for a question; None where nothing of a text was kept."""
    if not any(text.strip() for text in texts):
        return [None] * len(texts)
    found = (compressor or default_compressor()).compress_together(texts, budget, question)
    return [short if short.kept else None for short in found]


def facts(short: Compressed) -> dict[str, int]:
    """For the metadata of a document."""
    return {"keepset_tokens_before": short.tokens_before, "keepset_tokens_after": short.tokens_after}
