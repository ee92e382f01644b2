"""Haystack, the real package: a component in a pipeline, with and without a query."""

import pytest

pytest.importorskip("haystack", reason="haystack-ai is not installed: pip install 'keepset[haystack]'")

from haystack import Document, Pipeline

from keepset.integrations.haystack import KeepsetDocumentCompressor
from tests.tiny_compressor import TEXT, tiny_compressor

QUESTION = "Who ran the pier?"


def piped(budget: float) -> Pipeline:
    pipeline = Pipeline()
    pipeline.add_component("compress", KeepsetDocumentCompressor(budget=budget, compressor=tiny_compressor()))
    return pipeline


def test_documents_are_short_after_indexing() -> None:
    given = [Document(content=TEXT, meta={"source": "a"}), Document(content=None)]
    short, blank = piped(0.4).run({"compress": {"documents": given}})["compress"]["documents"]
    expected = tiny_compressor().compress(TEXT, 0.4)
    assert short.content == expected.text
    assert short.meta["source"] == "a"
    assert short.meta["keepset_tokens_after"] == expected.tokens_after
    assert short.id != given[0].id
    assert blank == given[1]


def test_with_a_query_documents_share_the_room() -> None:
    texts = [TEXT, "Two plus two is four. It rains."]
    given = [Document(content=text) for text in texts]
    found = piped(0.2).run({"compress": {"documents": given, "query": QUESTION}})["compress"]["documents"]
    expected = [short.text for short in tiny_compressor().compress_together(texts, 0.2, QUESTION) if short.kept]
    assert [document.content for document in found] == expected
