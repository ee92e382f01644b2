"""LangChain, the real package: as a transformer while loading, as a compressor after retrieval, and in a pipeline."""

import re
from pathlib import Path

import pytest

pytest.importorskip("langchain_core", reason="langchain-core is not installed: pip install 'keepset[langchain]'")

from langchain_core.documents import BaseDocumentCompressor, BaseDocumentTransformer, Document

from keepset.compression import compressor as compressor_module
from keepset.integrations.langchain import KeepsetCompressor, KeepsetTransformer
from tests.tiny_compressor import TEXT, tiny_compressor

PAGE = Path(__file__).parents[2] / "docs" / "compress.md"
QUESTION = "Who ran the pier?"


def documents() -> list[Document]:
    return [Document(page_content=TEXT, metadata={"source": "a"}, id="1"), Document(page_content=" ")]


def test_a_transformer_shortens_every_document_by_itself() -> None:
    transformer = KeepsetTransformer(budget=0.4, compressor=tiny_compressor())
    assert isinstance(transformer, BaseDocumentTransformer)
    given = documents()
    short, blank = transformer.transform_documents(given)
    expected = tiny_compressor().compress(TEXT, 0.4)
    assert short.page_content == expected.text
    assert short.id == "1"
    assert short.metadata == {
        "source": "a",
        "keepset_tokens_before": expected.tokens_before,
        "keepset_tokens_after": expected.tokens_after,
    }
    assert blank == given[1]
    assert given[0].page_content == TEXT


def test_a_compressor_keeps_what_the_query_needs_of_all_documents_together() -> None:
    compressor = KeepsetCompressor(budget=0.2, compressor=tiny_compressor())
    assert isinstance(compressor, BaseDocumentCompressor)
    given = [*documents(), Document(page_content="Two plus two is four. It rains.")]
    found = compressor.compress_documents(given, QUESTION)
    texts = [document.page_content for document in given]
    expected = [short.text for short in tiny_compressor().compress_together(texts, 0.2, QUESTION) if short.kept]
    assert [document.page_content for document in found] == expected
    assert compressor.compress_documents([], QUESTION) == []


def test_the_pipeline_of_the_documentation_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    found = re.search(r"<!-- a pipeline -->\n```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    assert len([line for line in found[1].splitlines() if line.strip()]) <= 10
    monkeypatch.setattr(compressor_module, "default_compressor", tiny_compressor)
    monkeypatch.setattr("keepset.integrations.compressing.default_compressor", tiny_compressor)
    monkeypatch.chdir(PAGE.parents[1])
    names: dict[str, object] = {}
    exec(found[1], names)
    reply = str(names["reply"])
    assert len(reply) > 0
