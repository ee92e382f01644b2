"""What is claimed of evidence on natural text. The paper has no sentences; the bars are keepset's own.

As everywhere, a claim holds when the whole 95 % interval is on its side, fails when it is on the other, and cannot be
told between.
"""

from typing import get_args

from keepset.models.quantize import Quantize
from keepset.paper.claim import FAILS, HOLDS, OPEN, Claim, above, below, interval, told
from keepset.paper.evidence.about import DEV, OTHER, OWN, SAME, shares
from keepset.paper.evidence.replies import BAR, REPLIES, SENTENCES
from keepset.paper.evidence.run import ARTICLES, DOCUMENTS, SQUAD
from keepset.paper.evidence.tables import COMPARED, KEEPSET, Pool, label, models, refused
from keepset.paper.evidence.tools import GRADIENT
from keepset.paper.result import Metric
from keepset.paper.results import Results
from keepset.paper.statistics import sign_test

FIRST, EXACTLY = 0.95, 0.85
NOT_IN_TEXT, WRONGLY, SAME_ARTICLE = 0.95, 0.05, 0.8
QUICK = 0.9
BEYOND = "not in it"
SURE = 0.05


def evidence_claims(results: Results) -> list[Claim]:
    """Every bar, for every model that was run."""
    found: list[Claim] = []
    for model in models(results):
        for questions, name in (
            (SQUAD, "SQuAD dev"),
            (ARTICLES, f"{SENTENCES} sentences of SQuAD dev"),
            (DOCUMENTS, "documents of our own"),
        ):
            if pool := Pool(results, model, questions, KEEPSET):
                for what, words, bar in (("first", "first", FIRST), ("exactly", "and no other named", EXACTLY)):
                    metric = pool.share(what)
                    found.append(at_least(f"Gold sentence {words}, {name} ({model})", metric, bar))
        if (pool := Pool(results, model, SQUAD, KEEPSET)) and any_rival(results, model):
            found.append(nothing_better(results, model, pool))
        if own := shares(results, model, DEV, OWN):
            found.append(
                at_most(f"Answerable questions called not in the text ({model})", refused(model, own), WRONGLY)
            )
            for kind, bar in ((OTHER, NOT_IN_TEXT), (SAME, SAME_ARTICLE)):
                metric = refused(model, shares(results, model, DEV, kind))
                found.append(at_least(f"Questions of the {kind} called not in the text ({model})", metric, bar))
        if pool := Pool(results, model, ARTICLES, KEEPSET):
            words = f"CPU seconds for a given answer and {SENTENCES} sentences, on average ({model})"
            found.append(at_most(words, pool.mean("seconds"), BAR))
        if pool := Pool(results, model, REPLIES):
            words = f"The model's own reply to {SENTENCES} sentences explained in under {BAR:.0f} CPU seconds ({model})"
            found.append(at_least(words, pool.share("quick"), QUICK))
    return found


def at_least(claim: str, metric: Metric, bar: float) -> Claim:
    return _claim(f"{claim}: at least {bar}", metric, above(metric, bar))


def at_most(claim: str, metric: Metric, bar: float) -> Claim:
    return _claim(f"{claim}: at most {bar}", metric, below(metric, bar))


def _claim(claim: str, metric: Metric, verdict: str) -> Claim:
    return Claim(claim, BEYOND, interval(metric), f"{metric.n} questions", told(verdict, metric.n))


def any_rival(results: Results, model: str) -> bool:
    return any(Pool(results, model, SQUAD, tool) for tool in COMPARED if tool != KEEPSET)


def nothing_better(results: Results, model: str, ours: Pool) -> Claim:
    """No tool spends less CPU time and has the gold sentence first, or alone, more often, on the same questions.

    Fails where a cheaper tool is ahead beyond chance (sign test), cannot be told where one is ahead within it, or while
    a tool has not been run. Gradients do not go through int8 products, so saliency is no rival there.
    """
    rounded = model.endswith(get_args(Quantize))
    rivals = [tool for tool in COMPARED if tool != KEEPSET and not (rounded and tool == GRADIENT)]
    ahead, surely, common_questions = [], False, list[int]()
    for tool in rivals:
        theirs = Pool(results, model, SQUAD, tool)
        common = [part for part in theirs.parts if part in ours.parts]
        costed = set(common) & set(ours.parts_with("seconds")) & set(theirs.parts_with("seconds"))
        if not costed:
            continue
        common_questions.append(ours.share("first", common).n)
        if theirs.cost("seconds", costed).value >= ours.cost("seconds", costed).value:
            continue
        for what in ("first", "exactly"):
            mine, other = (pool.share(what, common).each or "" for pool in (ours, theirs))
            pairs = list(zip(mine, other, strict=True))
            wins, losses = pairs.count(("0", "1")), pairs.count(("1", "0"))
            if wins > losses:
                ahead.append(f"{label(tool)} ({what}: {wins} questions against {losses})")
                surely |= sign_test(wins, losses) < SURE
    compared = len(common_questions)
    verdict = FAILS if surely else OPEN if ahead or compared < len(rivals) else HOLDS
    fewest, most = min(common_questions, default=0), max(common_questions, default=0)
    return Claim(
        f"No tool cheaper and better, SQuAD dev ({model})",
        BEYOND,
        f"none of {compared} run, of {len(rivals)}" if not ahead else ", ".join(ahead),
        f"{fewest} to {most} questions, by tool" if fewest < most else f"{most} questions",
        told(verdict, fewest),
    )
