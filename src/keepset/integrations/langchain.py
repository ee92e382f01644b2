"""LangChain: documents made short as they come in, or for the question they were retrieved for."""

from collections.abc import Sequence
from typing import Any

from langchain_core.callbacks import Callbacks
from langchain_core.documents import BaseDocumentCompressor, BaseDocumentTransformer, Document
from pydantic import ConfigDict

from keepset.compression.compressor import Compressor, TextBudget
from keepset.integrations.compressing import DEFAULT_BUDGET, compress_each, compress_for, facts


class KeepsetTransformer(BaseDocumentTransformer):
    """For loading: every document by itself, before anybody has asked."""

    def __init__(self, budget: TextBudget = DEFAULT_BUDGET, compressor: Compressor | None = None) -> None:
        self.budget = budget
        self.compressor = compressor

    def transform_documents(self, documents: Sequence[Document], **kwargs: Any) -> Sequence[Document]:
        """As many documents as before; blank ones stay as they are."""
        found = compress_each([document.page_content for document in documents], self.budget, self.compressor)
        return [
            document
            if short is None
            else document.model_copy(
                update={"page_content": short.text, "metadata": {**document.metadata, **facts(short)}}
            )
            for document, short in zip(documents, found, strict=True)
        ]


class KeepsetCompressor(BaseDocumentCompressor):
    """For retrieval: all documents together, for the query; those of which nothing is kept are left out."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    budget: TextBudget = DEFAULT_BUDGET
    compressor: Compressor | None = None

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> Sequence[Document]:
        """In the order they came."""
        found = compress_for([document.page_content for document in documents], query, self.budget, self.compressor)
        return [
            document.model_copy(update={"page_content": short.text, "metadata": {**document.metadata, **facts(short)}})
            for document, short in zip(documents, found, strict=True)
            if short is not None
        ]
