"""LlamaIndex, the real package: in an ingestion pipeline and after retrieval."""

import pytest

pytest.importorskip("llama_index.core", reason="llama-index-core is not installed: pip install 'keepset[llama-index]'")

from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from keepset.integrations.llama_index import KeepsetPostprocessor, KeepsetTransform
from tests.tiny_compressor import TEXT, tiny_compressor

QUESTION = "Who ran the pier?"


def test_nodes_are_short_after_ingestion() -> None:
    given = [TextNode(text=TEXT, metadata={"source": "a"}), TextNode(text="  ")]
    transform = KeepsetTransform(budget=0.4, compressor=tiny_compressor())
    short, blank = IngestionPipeline(transformations=[transform], disable_cache=True).run(nodes=given)
    expected = tiny_compressor().compress(TEXT, 0.4)
    assert short.get_content() == expected.text
    assert short.metadata["source"] == "a"
    assert short.metadata["keepset_tokens_after"] == expected.tokens_after
    assert blank.get_content() == "  "
    assert given[0].get_content() == TEXT


def test_after_retrieval_nodes_share_the_room_and_keep_their_scores() -> None:
    texts = [TEXT, "Two plus two is four. It rains."]
    nodes = [
        NodeWithScore(node=TextNode(text=text), score=score) for text, score in zip(texts, (0.9, 0.1), strict=True)
    ]
    postprocessor = KeepsetPostprocessor(budget=0.2, compressor=tiny_compressor())
    found = postprocessor.postprocess_nodes(nodes, query_bundle=QueryBundle(QUESTION))
    expected = [
        (short.text, score)
        for short, score in zip(tiny_compressor().compress_together(texts, 0.2, QUESTION), (0.9, 0.1), strict=True)
        if short.kept
    ]
    assert [(node.node.get_content(), node.score) for node in found] == expected


def test_without_a_query_every_node_is_shortened_by_itself() -> None:
    nodes = [NodeWithScore(node=TextNode(text=TEXT), score=0.5)]
    (found,) = KeepsetPostprocessor(budget=0.4, compressor=tiny_compressor()).postprocess_nodes(nodes)
    assert found.node.get_content() == tiny_compressor().compress(TEXT, 0.4).text
