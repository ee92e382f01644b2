"""What the answer of a row rests on, by the rule that fits the row.

    worth    rows without candidates: how much of what the text is worth for the answer is there (``labels.support``)
    paper    rows with candidates: is the answer the most likely of them (``labels.evidence``)

Efforts mean the same under both: ``evidence`` keeps every block alone and hides blocks only where none is enough;
``exact`` hides each block too; ``grouped`` and ``certified`` hide fewer and can miss some.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from keepset.blocks import Example, KeepSet
from keepset.interventions import Ask, Effects, Executor, ForcedChoice, Reading, Score, Scorer, TeacherForced
from keepset.labels import find_evidence
from keepset.labels.evidence import Case
from keepset.labels.support import LEAST_WORTH, RULE, Support, SupportEffort, find_support
from keepset.labels.worth import Answer, Worth
from keepset.text.example import TextExample

PAPER = "paper"
"""The name of the paper's rule in labels, beside ``RULE``."""
RULES = f"{RULE}; {PAPER} where rows have candidates"
"""As the manifest says it."""


@dataclass(frozen=True)
class Basis:
    """What an answer rests on: columns of ``LabelRow`` of the same names."""

    rule: str
    clean_correct: bool
    clean_log_prob: float
    worth: float
    drop: list[float]
    flip: list[bool]
    sufficient: list[bool]
    measured: list[bool]
    evidence: list[int]
    others: list[int]
    case: str


def scorer_of(example: TextExample) -> Scorer:
    """When the answer is given with every block visible: forced choice where there are candidates, else every answer
    token must be the most likely one."""
    return ForcedChoice(_candidates) if example.candidates else TeacherForced()


def paper_bases(examples: Sequence[TextExample], executor: Executor, effort: SupportEffort) -> list[Basis]:
    """By the paper's rule, computed together."""
    effects = Effects(examples, executor, ForcedChoice(_candidates), "exact" if effort == "evidence" else effort)
    found = []
    for i, evidence in enumerate(find_evidence(effects)):
        n = len(examples[i].blocks)
        sufficient: list[bool] = effects.sufficient[i, :n].tolist()
        drop, flip, measured = [0.0] * n, [False] * n, [False] * n
        if effort != "evidence":
            tables = effects.drop, effects.flip, effects.hidden.measured
            drop, flip, measured = (table[i, :n].tolist() for table in tables)
        elif not any(sufficient):  # then the evidence has asked for all of these already
            clean, *hidden = _leave_one_out(effects, i)
            drop = [clean.log_prob - score.log_prob for score in hidden]
            flip, measured = [clean.correct and not score.correct for score in hidden], [True] * n
        basis = Basis(
            rule=PAPER,
            clean_correct=bool(effects.clean_correct[i]),
            clean_log_prob=effects.clean_log_prob[i].item(),
            worth=0.0,
            drop=drop,
            flip=flip,
            sufficient=sufficient,
            measured=measured,
            evidence=sorted(evidence.blocks),
            others=[],
            case=evidence.case.value,
        )
        found.append(basis)
    return found


def worth_bases(examples: Sequence[TextExample], executor: Executor, effort: SupportEffort) -> list[Basis]:
    """By the rule of worth: whether or not the model would have worded the answer so.

    Of questions about one context, which is read once.
    """
    answers = [Answer(example, executor) for example in examples]
    with executor.hold([answer.beginning for answer in answers]):
        everything = executor.read([_ask(answer, answer.everything) for answer in answers])  # all branch off it
        for answer, (reading,) in zip(answers, everything, strict=True):
            answer.known[answer.everything] = torch.tensor(reading.log_probs[0])
        if len(answers) > 1 and effort != "certified":
            _read_alone(answers, executor)
        return [_worth_basis(answer, reading, effort) for answer, (reading,) in zip(answers, everything, strict=True)]


def _ask(answer: Answer, keep: KeepSet, length: int | None = None) -> Ask:
    """Question and answer, or so many tokens of them."""
    return Ask(answer.beginning, keep, ((*answer.lead, *answer.tokens)[:length],))


def _read_alone(answers: Sequence[Answer], executor: Executor) -> None:
    """Every block alone, for all questions side by side: each block is computed once, and what was read is known."""
    executor.read([_ask(answer, frozenset()) for answer in answers])
    lengths = [len(answer.read_spoken([answer.everything])[0]) for answer in answers]
    executor.read(
        [
            _ask(answer, frozenset({block}), length)
            for answer, length in zip(answers, lengths, strict=True)
            for block in range(len(answer.example.blocks))
        ]
    )


def _worth_basis(answer: Answer, reading: Reading, effort: SupportEffort) -> Basis:
    """``reading`` is of the whole context."""
    n = len(answer.example.blocks)
    (full,) = answer.read([answer.everything])
    if not bool(torch.isfinite(full).all()):
        raise ValueError("expected finite numbers, got NaN or infinity")
    if effort == "exact":  # the whole answer, and where the text is worth nothing too
        answer.read([answer.everything - {block} for block in range(n)])
    support = find_support(answer, effort=effort)
    supported = support.worth >= LEAST_WORTH and bool(support.evidence)
    drop, flip, measured = [0.0] * n, [False] * n, [False] * n
    read = {keep: found[len(answer.lead) :] for keep, found in (answer.spoken | answer.known).items()}
    for block in range(n):
        keep = answer.everything - {block}
        if keep in read:
            drop[block], measured[block] = float((full[: len(read[keep])] - read[keep]).sum()), True
            flip[block] = supported and not Worth(answer, slice(None)).restored([keep])[0].says
    return Basis(
        rule=RULE,
        clean_correct=reading.top[0][len(answer.lead) :] == answer.tokens,
        clean_log_prob=float(full.sum()),
        worth=support.worth,
        drop=drop,
        flip=flip,
        sufficient=[supported and block in support.sufficient for block in range(n)],
        measured=measured,
        evidence=sorted(support.evidence | support.others) if supported else [],
        others=sorted(support.others) if supported else [],
        case=_case(support).value if supported else Case.EMPTY.value,
    )


def _case(support: Support) -> Case:
    return Case.ALTERNATIVES if support.enough and len(support.evidence) == 1 else Case.NECESSARY


def _leave_one_out(effects: Effects, i: int) -> list[Score]:
    """The clean score of example ``i``, then each of its blocks hidden."""
    everything = effects.probe.blocks(i)
    return effects.probe.score([(i, everything), *((i, everything - {block}) for block in sorted(everything))])


def _candidates(example: Example) -> tuple[tuple[int, ...], ...]:
    assert isinstance(example, TextExample)
    return example.candidates
