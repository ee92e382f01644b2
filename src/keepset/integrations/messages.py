"""Chat messages as OpenAI's interface and its likes take them: what was said before made short for what is asked now.

messages = [{"role": "system", "content": "You are a clerk."}, {"role": "user", "content": report},
            {"role": "user", "content": "Who pays?"}]
client.chat.completions.create(model=..., messages=compress_messages(messages, budget=0.25))
"""

from collections.abc import Mapping, Sequence
from typing import Any

from keepset.compression.compressor import Compressor, TextBudget
from keepset.integrations.compressing import DEFAULT_BUDGET, compress_for

Message = Mapping[str, Any]

WHOLE = ("system", "developer")
"""Roles whose messages are instructions: never cut."""


def compress_messages(
    messages: Sequence[Message], budget: TextBudget = DEFAULT_BUDGET, compressor: Compressor | None = None
) -> list[dict[str, Any]]:
    """The last user message is the question and stays as it is; the texts before it share the budget.

    Instructions, calls of tools and parts that are no text stay; a message of which nothing is kept has an empty text,
    so that the roles stay in order.
    """
    last = next((i for i in reversed(range(len(messages))) if messages[i].get("role") == "user"), None)
    if last is None:
        raise ValueError("messages: expected one with the role 'user', which is the question, got none")
    question = "\n".join(_texts(messages[last]))
    if not question.strip():
        raise ValueError("messages: expected text in the last user message, which is the question, got none")
    short = [dict(message) for message in messages]
    cut = [message for message in short[:last] if message.get("role") not in WHOLE]
    found = iter(compress_for([text for message in cut for text in _texts(message)], question, budget, compressor))
    for message in cut:
        if isinstance(message.get("content"), str):
            kept = next(found)
            message["content"] = kept.text if kept else ""
        elif isinstance(message.get("content"), list):
            message["content"] = [_shortened(piece, found) for piece in message["content"]]
    return short


def _texts(message: Message) -> list[str]:
    """The texts of a message, which is one or a list of pieces."""
    content = message.get("content")
    if isinstance(content, str):
        return [content]
    return [piece["text"] for piece in content or () if piece.get("type") == "text"]


def _shortened(piece: Message, found: Any) -> dict[str, Any]:
    if piece.get("type") != "text":
        return dict(piece)
    kept = next(found)
    return {**piece, "text": kept.text if kept else ""}
