"""LlamaIndex: nodes made short as they come in, or for the query they were retrieved for."""

from collections.abc import Sequence
from typing import Any

from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import BaseNode, MetadataMode, NodeWithScore, QueryBundle, TransformComponent
from pydantic import ConfigDict

from keepset.compression.compressed import Compressed
from keepset.compression.compressor import Compressor, TextBudget
from keepset.integrations.compressing import DEFAULT_BUDGET, compress_each, compress_for, facts


class KeepsetTransform(TransformComponent):
    """For an ingestion pipeline: every node by itself, before anybody has asked."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    budget: TextBudget = DEFAULT_BUDGET
    compressor: Compressor | None = None

    def __call__(self, nodes: Sequence[BaseNode], **kwargs: Any) -> Sequence[BaseNode]:
        """As many nodes as before; blank ones stay as they are."""
        found = compress_each([said(node) for node in nodes], self.budget, self.compressor)
        return [node if short is None else shortened(node, short) for node, short in zip(nodes, found, strict=True)]


class KeepsetPostprocessor(BaseNodePostprocessor):
    """For a query engine: all nodes together, for the query; those of which nothing is kept are left out."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    budget: TextBudget = DEFAULT_BUDGET
    compressor: Compressor | None = None

    @classmethod
    def class_name(cls) -> str:
        return "KeepsetPostprocessor"

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        texts = [said(node.node) for node in nodes]
        if query_bundle is None:
            found = compress_each(texts, self.budget, self.compressor)
        else:
            found = compress_for(texts, query_bundle.query_str, self.budget, self.compressor)
        return [
            NodeWithScore(node=shortened(node.node, short), score=node.score)
            for node, short in zip(nodes, found, strict=True)
            if short is not None
        ]


def said(node: BaseNode) -> str:
    text: str = node.get_content(metadata_mode=MetadataMode.NONE)
    return text


def shortened(node: BaseNode, short: Compressed) -> BaseNode:
    """A copy: other places may hold the node."""
    copy: BaseNode = node.model_copy(deep=True)
    copy.set_content(short.text)
    copy.metadata = {**node.metadata, **facts(short)}
    return copy
