"""Whether a text is about a question at all: how much of the question's surprise the text explains.

    share   1 - log p(question | text) / log p(question)    over the question's own tokens

What the text is worth for a model's reply does not tell: a small model talks about the text whatever it is asked. What
it is worth for the question does: the names and words that a question takes from its text are no surprise after it.
"""

import torch
from transformers import PreTrainedTokenizerBase

from keepset.blocks import Example, Span
from keepset.interventions import Ask, Executor
from keepset.text.prompt import encode, lay_out
from keepset.text.split import Blocks

SMOLLM2_THRESHOLD = 0.2
UNKNOWN_MODEL_THRESHOLD = SMOLLM2_THRESHOLD
"""SmolLM2's, which is the only one that was tuned."""
THRESHOLDS = {"smollm2-135m-instruct": SMOLLM2_THRESHOLD}
"""Model -> the share from which a text seems to be about a question. Tuned on SQuAD train articles by
``keepset bench evidence``: a paragraph's own questions against those of the same article's other paragraphs."""


def about_threshold(model: str) -> float:
    """For a bundled model its own; for any other one a default nobody has tuned for it."""
    return THRESHOLDS.get(model, UNKNOWN_MODEL_THRESHOLD)


def question_share(
    executor: Executor, tokenizer: PreTrainedTokenizerBase, context: str, question: str, blocks: Blocks = "sentence"
) -> float:
    """The share of the question's surprise that the text explains: 1 all of it, 0 none; below 0 it misleads.

    One forward of the text and the question, and one of the question alone.
    """
    example = question_example(tokenizer, context, question, blocks)
    keeps = (frozenset(range(len(example.blocks))), frozenset[int]())
    readings = executor.read([Ask(example, keep, (example.answer,)) for keep in keeps])
    with_text, without = (torch.tensor([view.log_probs[0] for view in views]).mean(0).sum() for views in readings)
    return float(1 - with_text / without) if without else 0.0


def question_example(
    tokenizer: PreTrainedTokenizerBase, context: str, question: str, blocks: Blocks = "sentence"
) -> Example:
    """The text, then as the "answer" the question's own tokens: not what stands before it, nor a template's end."""
    prompt = lay_out(tokenizer, context, blocks, question)
    _, offsets = encode(tokenizer, prompt.text)
    asked = question.strip()
    begin = prompt.text.rindex(asked)
    # A token belongs where its last character is, as in text.prompt; one of the question's at least is left to predict.
    own = [i for i, (_, stop) in enumerate(offsets) if begin < stop <= begin + len(asked) and i > len(prompt.tokens)]
    tokens = torch.cat([prompt.tokens, prompt.question])
    first, last = own[0], own[-1] + 1
    return Example(
        tokens=tokens[:first],
        blocks=prompt.blocks,
        query=Span(len(prompt.tokens), first),
        answer=tuple(tokens[first:last].tolist()),
    )
