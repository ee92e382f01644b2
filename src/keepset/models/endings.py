"""What ends an answer, for everybody who lets a model write one."""

from transformers import PreTrainedModel, PreTrainedTokenizerBase


def turn_ends(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """Tokens that end a turn or a text: those the model's generation config names, and the tokenizer's own."""
    ends = getattr(model.generation_config, "eos_token_id", None)
    ends = ends if isinstance(ends, list) else [ends]
    return frozenset(token for token in (*ends, tokenizer.eos_token_id) if token is not None)


def line_ends(tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """Tokens with a line break in them."""
    # "Ċ" is how byte-level vocabularies write a line break, "<0x0A>" how sentence pieces do.
    maybe = [i for token, i in tokenizer.get_vocab().items() if "\n" in token or "Ċ" in token or token == "<0x0A>"]
    return frozenset(i for i in maybe if "\n" in str(tokenizer.decode([i])))


def spoken(tokenizer: PreTrainedTokenizerBase, tokens: tuple[int, ...]) -> str:
    """The answer that generated ``tokens`` say. A model without a chat template has no turns: its answer is a line."""
    text = str(tokenizer.decode(list(tokens), skip_special_tokens=True)).strip()
    return text if tokenizer.chat_template else text.partition("\n")[0].strip()
