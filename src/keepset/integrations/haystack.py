"""Haystack: a component that makes documents short, for a query where there is one."""

from dataclasses import replace

from haystack import Document, component

from keepset.compression.compressor import Compressor, TextBudget
from keepset.integrations.compressing import DEFAULT_BUDGET, compress_each, compress_for, facts


@component
class KeepsetDocumentCompressor:
    """In an indexing pipeline every document by itself; with a query all together, the useless ones left out."""

    def __init__(self, budget: TextBudget = DEFAULT_BUDGET, compressor: Compressor | None = None) -> None:
        self.budget = budget
        self.compressor = compressor

    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document], query: str | None = None) -> dict[str, list[Document]]:
        texts = [document.content or "" for document in documents]
        if query is None:
            found = compress_each(texts, self.budget, self.compressor)
        else:
            found = compress_for(texts, query, self.budget, self.compressor)
        kept = [
            document
            if short is None
            # Without its id, which is a hash of the content; its embedding is of what it said before.
            else replace(document, id="", content=short.text, meta={**document.meta, **facts(short)}, embedding=None)
            for document, short in zip(documents, found, strict=True)
            if short is not None or query is None
        ]
        return {"documents": kept}
