"""log p(question | block) under the whole reader, as the policy ``question_likelihood`` has it."""

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from keepset.blocks import Span
from keepset.paper.natural.documents import AskedOf, Read
from keepset.paper.natural.measure import Scorer
from keepset.policies import Context, QuestionLikelihood
from keepset.routers.reading import sink_token
from keepset.text.prompt import encode


def question_likelihood(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> Scorer:
    """Reads every block again for every question."""
    sink = sink_token(tokenizer)

    def score(document: Read, asked: AskedOf | None) -> Tensor:
        assert asked is not None
        tokens, spans = [sink], []
        for passage in document.passages[asked.blocks.start : asked.blocks.stop]:
            said = encode(tokenizer, f"{passage.text.strip()}\n\n")[0]
            spans.append(Span(len(tokens), len(tokens) + len(said)))
            tokens += said
        question = torch.tensor(encode(tokenizer, asked.question)[0])
        return QuestionLikelihood().score(Context(model, torch.tensor(tokens), tuple(spans), question))

    return score
