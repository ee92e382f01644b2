"""Question likelihood: the blocks after which the model finds the question least surprising."""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from keepset.policies.policy import QUERY_AWARE, Context
from keepset.readouts.layers import check_inputs


class QuestionLikelihood:
    """log p(question | block), each block read alone with what always stands before the blocks.

    Costs the blocks and one question per block: about a prefill and a half where blocks are twice as long as questions.
    """

    name = "question_likelihood"
    title = "question likelihood"
    regimes = QUERY_AWARE

    @torch.inference_mode()
    def score(self, context: Context) -> Tensor:
        assert context.question is not None, "its regime"
        check_inputs(context.model, context.tokens[None], context.blocks)
        prefix, question = context.tokens[: context.blocks[0].start], context.question
        scores = []
        for span in context.blocks:
            read = torch.cat([prefix, context.tokens[span.start : span.stop], question]).to(context.model.device)
            logits = context.model(read[None], use_cache=False, logits_to_keep=len(question) + 1).logits[0, :-1]
            scores.append(-cross_entropy(logits.float(), read[-len(question) :], reduction="sum"))
        return torch.stack(scores)
