"""What was found, in sentences. The terminal and the page say the same."""

from keepset.explain.findings import BlockReport, Findings

FLOOR = 0.25
"""Nats under which an effect is not pointed out; the paper's floor."""


def verdict(report: Findings) -> str:
    """The evidence set in a sentence."""
    named, necessary = number_list(report.evidence), [block.number for block in report.blocks if block.flip]
    one = len(report.evidence) == 1
    if report.case == "necessary":
        if one:
            return f"Block {named} is necessary, and not enough alone: hiding it loses the answer."
        return f"No block is enough alone; hiding any one of the blocks {named} loses the answer."
    if report.case == "empty":
        return "Nothing: no block is enough alone, and no single block is necessary."
    enough = f"Block {named} alone is enough" if one else f"Each of the blocks {named} is enough alone"
    if not report.gives_answer:
        return f"{enough} for the answer."
    if not necessary:
        return f"{enough}; no single block is necessary."
    which = f"block {number_list(necessary)}" if len(necessary) == 1 else f"any one of {number_list(necessary)}"
    which = "it" if one and necessary == [*report.evidence] else which
    return f"{enough}; hiding {which} loses the answer."


def remarks(report: Findings) -> list[str]:
    """What a reader must know to read the numbers right."""
    found = []
    if not report.gives_answer:
        found.append(
            "The model does not give this answer with everything visible. Drops measure how much each block supports "
            "it; nothing can be necessary."
        )
    if report.knows_answer:
        found.append(
            "The model gives this answer with every block hidden, so a block that is enough alone says nothing about "
            "the block."
        )
    if report.case == "empty" and report.gives_answer:
        found.append("The answer may rest on blocks that stand in for one another: see the minimal sufficient sets.")
    cleared = sum(not block.measured for block in report.blocks)
    if cleared:
        found.append(
            f"{cleared} of {len(report.blocks)} blocks were not hidden one by one (effort {report.effort}); their drop "
            "is shown as 0."
        )
    return found


def family_line(report: Findings) -> str:
    """The minimal sufficient sets."""
    if not report.family:
        return "none found"
    sets = " or ".join("{" + ", ".join(map(str, keep)) + "}" for keep in report.family)
    return (
        f"{sets} ({'no others, if hiding more never repairs the answer' if report.complete else 'there may be others'})"
    )


def cost_line(report: Findings) -> str:
    cost = report.cost
    return (
        f"{cost.keep_sets:,} keep sets in {cost.forwards:,} forwards, {cost.tokens:,} tokens, {cost.seconds:.1f} s. "
        f"{2 * len(report.blocks) + 1:,} forwards of the whole prompt would take {cost.multiple:.1f} times the tokens "
        "of the effects."
    )


def answer_rows(report: Findings) -> list[tuple[str, str]]:
    """Who reads what, and what the model then writes."""
    answers = report.answers
    return [
        ("with everything", answers.clean),
        ("only the evidence", answers.only_evidence),
        ("without the evidence", answers.without_evidence),
        ("no block at all", answers.no_context),
    ]


def number_list(numbers: tuple[int, ...] | list[int]) -> str:
    """3, 5 and 8."""
    words = [str(number) for number in numbers]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def change(block: BlockReport) -> str:
    """The change of the answer's log-probability, signed."""
    return f"{-block.drop:+.2f}" if abs(block.drop) >= 0.005 else "0.00"
