"""What was found, in sentences. The terminal and the page say the same."""

import re

from keepset.explain.findings import BlockReport, Findings, PartReport, points_elsewhere
from keepset.text.bm25 import words
from keepset.text.lexical import COMMON

NOT_IN_TEXT = "This text does not seem to answer that."
NOT_FROM_TEXT = "The reply does not rest on this text."
DOUBTFUL = (
    "The sources below are doubtful: from them alone the model writes something else, and without them much the same."
)
ANYWAY = "The text adds little to these: the model would write them, or something like them, anyway."
MOST = 0.5
"""Share of the worth from which it is worth saying that something else restores it, or that hiding a block takes it."""
OTHERWISE = (
    "With the evidence alone the model writes something else: it makes the reply's words likely, and not the likeliest."
)
SAME = "Without the evidence the model writes much the same: it makes the reply likelier, and is not needed for it."
FINAL_MARK = re.compile(r"[\s.!?…。！？\"'”’»)\]]*$")
"""What stands after the last word of a sentence."""


def cited(report: Findings) -> str:
    """The reply, each part followed by the numbers of its source blocks: ``… was Ingrid Solberg [8].``"""
    return "".join(f"{text}{mark}" for text, mark in cited_pieces(report))


def cited_pieces(report: Findings) -> list[tuple[str, str]]:
    """The reply in pieces, each with the citation that stands after it; empty where nothing is cited."""
    pieces, end = [], 0
    for part in report.parts:
        if part.evidence:
            text = report.said[end : part.stop]
            marks = FINAL_MARK.search(report.said[part.start : part.stop])
            last = part.stop - len(marks[0]) if marks else part.stop
            pieces += [(text[: last - end], f" [{sources(part)}]")]
            end = last
    return [*pieces, (report.said[end:], "")]


def sources(part: PartReport) -> str:
    """``3, 5`` are needed together; ``8 or 12`` each say it."""
    together = ", ".join(map(str, part.evidence))
    return " or ".join([together, *map(str, part.others)])


def doubt(report: Findings) -> str | None:
    """What is to be said first, where there is something; a text may answer and the model talk about something else."""
    if report.about < report.about_threshold:
        return NOT_IN_TEXT
    if not report.in_text:
        return NOT_FROM_TEXT
    return DOUBTFUL if written_otherwise(report) and written_the_same(report) else None


def missed(report: Findings) -> BlockReport | None:
    """The block that the question points at, where the text is about the question and the reply rests on others that
    are clearly less about it."""
    if report.pointed is None or report.about < report.about_threshold:
        return None
    rests_on = {number for part in report.parts for number in part.sources}
    elsewhere = points_elsewhere(report.pointed, [block.about or 0.0 for block in report.blocks], rests_on)
    return report.blocks[report.pointed] if elsewhere else None


def missed_line(block: BlockReport) -> str:
    return f"The question seems to be about block {block.number}, which the reply does not rest on:"


def alone_line(report: Findings) -> str:
    """What the model makes of the block that the question points at; nothing where it was not asked."""
    alone = report.replies.only_pointed
    return f"From that block alone the model writes: {alone}" if alone else ""


def verdict(part: PartReport) -> str:
    """What a part rests on, in a sentence or two. Nothing is claimed that a measurement refutes."""
    if not part.spoken:
        return "The text adds little to this: the model would write it, or something like it, anyway."
    if not part.evidence:
        return f"It rests on the text as a whole: the best few blocks restore {part.total:.0%} of it."
    named = number_list(part.evidence)
    if part.others:
        said = f"Block {named} is enough alone; {number_list(part.others)} {_say(part.others)} it too."
    elif len(part.evidence) == 1:
        said = f"Block {named} is enough alone."
        said += f" {number_list(part.close)} {'comes' if len(part.close) == 1 else 'come'} close." if part.close else ""
    else:
        said = f"Blocks {named} together are enough; no single block is."
    return " ".join([said, *_refutations(part)])


def _refutations(part: PartReport) -> list[str]:
    """What leave-one-out says of the evidence, where it was measured."""
    found = []
    if part.left is not None:
        them = "them" if len(part.sources) > 1 else "it"
        if part.left >= MOST:
            found.append(f"Without {them} the rest of the text still restores {part.left:.0%}.")
        else:
            found.append(f"Nothing else restores most of it: without {them}, {max(0.0, part.left):.0%} is left.")
    needed = [i for i, share in enumerate(part.carried) if share >= MOST and i not in part.sources]
    if needed:
        found.append(f"Hiding {number_list(needed)} takes most of it, too.")
    return found


def _say(numbers: tuple[int, ...]) -> str:
    return "says" if len(numbers) == 1 else "say"


def reply_rows(report: Findings) -> list[tuple[str, str]]:
    """Who reads what, and what the model then writes."""
    replies = report.replies
    rows = [
        ("with everything", replies.everything),
        ("only the evidence", replies.only_evidence),
        ("without the evidence", replies.without_evidence),
        (f"block {report.pointed} alone", replies.only_pointed),
    ]
    return [(name, said) for name, said in rows if said is not None]


def written_otherwise(report: Findings) -> bool:
    """The evidence was enough for the reply's probability, and yet the model begins to say something else from it.

    Half of the telling words of either one in the other are the same thing in other words, or one of them cut short;
    but not where each names a number that the other has not.
    """
    alone = report.replies.only_evidence
    if alone is None or not report.generated:
        return False
    whole, short = (telling_words(report, said) for said in (report.said, alone))
    if any(map(str.isdecimal, whole - short)) and any(map(str.isdecimal, short - whole)):
        return True
    return 2 * len(whole & short) < min(len(whole), len(short))


def written_the_same(report: Findings) -> bool:
    """With the evidence hidden the model begins to say nothing that it did not say with it."""
    without = report.replies.without_evidence
    if without is None or not report.generated:
        return False
    whole, short = (telling_words(report, said) for said in (report.said, without))
    return bool(short) and short <= whole


def telling_words(report: Findings, said: str) -> set[str]:
    """Without those that every text has, and those of the question."""
    return set(words(said)) - COMMON - set(words(report.question))


def remarks(report: Findings) -> list[str]:
    """What the replies to parts of the text say against the evidence, where they do."""
    return [OTHERWISE] * written_otherwise(report) + [SAME] * written_the_same(report)


def source_line(report: Findings) -> str:
    return f"written by {report.model}" if report.generated else f"given; measured with {report.model}"


def cost_line(report: Findings) -> str:
    cost = report.cost
    return (
        f"{cost.seconds:.1f} s: the text was hidden in {cost.keep_sets:,} ways, {cost.tokens:,} tokens in "
        f"{cost.forwards:,} runs of the model; effort {report.effort}."
    )


def number_list(numbers: tuple[int, ...] | list[int]) -> str:
    """3, 5 and 8."""
    words = [str(number) for number in numbers]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
