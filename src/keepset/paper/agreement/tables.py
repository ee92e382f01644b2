"""Agreement in tables: over pairs of teachers, pair by pair, under copies, and what attention's start does to it."""

from itertools import combinations
from statistics import fmean

from keepset.figures import COLOURS, new_figure, svg
from keepset.paper.agreement.run import CONDITIONS, COPIES, LABELS, MIXTURES
from keepset.paper.results import Results
from keepset.paper.table import Figure, Table, with_interval, with_paper
from keepset.paper.teachers import RECORDS, SOFT_RECORDS
from keepset.paper.words import in_words

PAPER_AGREEMENT = {
    "unique": ("0.38", "0.25", "0.79"),
    "latest_write": ("0.43", "0.28", "0.81"),
    "duplicate_m1": ("0.38", "0.25", "0.81"),
    "duplicate_m2": ("0.41", "0.16", "0.85"),
    "duplicate_m4": ("0.46", "0.11", "0.90"),
}
"""Adaptive attention, ablation top-k, causal evidence set."""


def of_the_tables(results: Results) -> Results:
    """Those of the teachers that the paper's tables rest on."""
    return results.where(mixture=RECORDS)


def conditions(results: Results) -> dict[str, str]:
    """Condition -> its title, of those that ran."""
    there = results.coordinates("condition")
    return {name: title for name, title in CONDITIONS.items() if name in there}


def agreement_table(every: Results) -> Table:
    """Mean Jaccard over teacher pairs, per condition and label."""
    results = of_the_tables(every)
    config = results.run().config
    rows = []
    for condition, title in conditions(results).items():
        mean = {label: results.value("mean_jaccard", condition=condition, label=label) for label in LABELS}
        adaptive, ablation, causal = PAPER_AGREEMENT[condition]
        rows.append(
            (
                title,
                with_paper(mean["adaptive"], adaptive),
                by_chance(results, condition, "adaptive"),
                with_paper(mean["attention_top_k"], ""),
                with_paper(mean["ablation"], ablation),
                with_paper(mean["causal"], causal),
                by_chance(results, condition, "causal"),
                over_teachers(results, "match", condition),
                over_teachers(results, "cover", condition),
                str(results.run(condition=condition).counts["examples"]),
            )
        )
    pairs = len(list(combinations(config["teachers"], 2)))
    return Table(
        name="tab-agreement",
        caption=(
            f"Cross-seed label agreement: mean Jaccard over {in_words(pairs)} pairs of "
            f"{config['mixture']} teachers (the paper's in brackets). Match and cover: the causal evidence set equals "
            "the annotated union, holds an annotated set (range over teachers)."
        ),
        columns=(
            "Task",
            "Adaptive attention",
            "by chance",
            f"Attention top-{config['k']}",
            f"Ablation top-{config['k']}",
            "Causal evidence set",
            "by chance",
            "match",
            "cover",
            "n",
        ),
        rows=tuple(rows),
        notes=(
            "By chance: about what two random sets of that mean size share, s / (2N - s) for s of N = "
            f"{config['n_blocks']} blocks. A set that names most of a short context agrees with any other; the paper's "
            "adaptive sets, 14 of 32 blocks, would share 0.28.",
        ),
    )


def by_chance(results: Results, condition: str, label: str) -> str:
    """The Jaccard overlap of two random sets of the label's mean size."""
    size = fmean(results.values("size", condition=condition, label=label))
    return f"{size / (2 * results.run(condition=condition).config['n_blocks'] - size):.2f}"


def over_teachers(results: Results, what: str, condition: str) -> str:
    found = results.values(what, condition=condition, label="causal")
    return f"{min(found):.2f}–{max(found):.2f}"


def starts_table(every: Results) -> Table:
    """Is it attention's start? Sizes and agreement of both kinds of teachers."""
    rows = []
    for mixture, start in MIXTURES.items():
        results = every.where(mixture=mixture)
        for condition, title in conditions(results).items():
            sizes = results.values("size", condition=condition, label="adaptive")
            found = [
                results.value("mean_jaccard", condition=condition, label=label) for label in ("adaptive", "causal")
            ]
            rows.append(
                (
                    mixture,
                    start,
                    title,
                    f"{min(sizes):.1f}–{max(sizes):.1f} of {results.run().config['n_blocks']}",
                    f"{found[0]:.2f}",
                    by_chance(results, condition, "adaptive"),
                    f"{found[1]:.2f}",
                    by_chance(results, condition, "causal"),
                    over_teachers(results, "cover", condition),
                )
            )
    return Table(
        name="agreement-starts",
        caption=(
            "What the start of attention does to agreement across teachers: mean Jaccard of adaptive attention and of "
            "causal evidence sets, the number of blocks that hold nine tenths of the attention (range over teachers), "
            "and what random sets of that size would share. Paper: 13 to 15 of 32 blocks. Cover: the evidence set "
            "holds an annotated one (range over teachers)."
        ),
        columns=(
            "Teachers",
            "Attention starts",
            "Task",
            "Blocks attended",
            "Adaptive attention",
            "by chance",
            "Causal evidence set",
            "by chance",
            "cover",
        ),
        rows=tuple(rows),
        notes=(
            f"{RECORDS}: the paper's number of records, keys and values, and some contexts of one, two and four in "
            f"training; {SOFT_RECORDS}: half the records, 96 keys. Start, size and short contexts differ together; the "
            "start alone was not tested with five teachers.",
            "Where the annotated record alone is not enough for a teacher (sanity-anchors), of several copies none is "
            "enough and none is needed: its evidence set is empty.",
        ),
    )


def pairs_table(every: Results) -> Table:
    """Per pair of teachers: causal / adaptive."""
    results = of_the_tables(every)
    found = conditions(results)
    rows = []
    for teacher, other in combinations(results.run().config["teachers"], 2):
        cells = []
        for condition in found:
            causal, adaptive = (
                results.value("jaccard", condition=condition, label=label, teacher=teacher, other_teacher=other)
                for label in ("causal", "adaptive")
            )
            cells.append(f"{causal:.2f}/{adaptive:.2f}")
        rows.append((f"{teacher}-{other}", *cells))
    return Table(
        name="tab-app-agreement",
        caption="Cross-seed agreement per pair of teachers: causal evidence sets / adaptive attention.",
        columns=("Pair", *found.values()),
        rows=tuple(rows),
    )


def stale_table(every: Results) -> Table:
    """Per teacher: does the label hold an obsolete write, and how large is it?"""
    results = of_the_tables(every)
    run = results.run(condition="latest_write")
    rows = []
    for teacher in run.config["teachers"]:
        at = {"condition": "latest_write", "teacher": teacher}
        rows.append(
            (
                f"seed {teacher}",
                with_interval(results.metric("holds_obsolete", **at, label="adaptive")),
                with_interval(results.metric("top_attended_is_obsolete", **at)),
                with_interval(results.metric("holds_obsolete", **at, label="causal")),
                f"{results.value('size', **at, label='adaptive'):.1f}",
                f"{results.value('size', **at, label='causal'):.1f}",
            )
        )
    return Table(
        name="stale-attention",
        caption=(
            f"Latest write, {run.config['mixture']} teachers: share of examples whose label holds an obsolete write, "
            "and the mean number of blocks it names. Paper: the adaptive set holds one on 1.00 of the examples for "
            "every seed, with 13 to 15 of 32 blocks against 1.4 to 1.6 of the causal evidence set."
        ),
        columns=(
            "Teacher",
            "adaptive holds obsolete",
            "top attended is obsolete",
            "causal holds obsolete",
            "adaptive size",
            "causal size",
        ),
        rows=tuple(rows),
        notes=(
            f"n = {run.counts['examples']} per teacher, contexts of {run.config['n_blocks']} blocks; 95 % intervals in "
            "brackets.",
        ),
    )


def redundancy_figure(every: Results) -> Figure:
    """What copies of the answering record do to each label's agreement across teachers."""
    results = of_the_tables(every)
    k = results.run().config["k"]
    figure = new_figure(width=7.0)
    axes = figure.axes[0]
    lines = {
        "causal evidence set": ("causal", "causal", "o-"),
        "adaptive attention": ("adaptive", "attention", "s-"),
        f"attention top-{k}": ("attention_top_k", "attention", "s:"),
        f"ablation top-{k}": ("ablation", "ablation", "^-"),
    }
    x = list(COPIES)
    for title, (label, colour, style) in lines.items():
        y = [results.value("mean_jaccard", condition=condition, label=label) for condition in COPIES.values()]
        axes.plot(x, y, style, color=COLOURS[colour], label=title)
    flips = [fmean(results.values("single_flip", condition=condition)) for condition in COPIES.values()]
    axes.plot(x, flips, "x--", color=COLOURS["other"], label="hiding one copy flips (share)")
    axes.set_xlabel("copies of the answering record")
    axes.set_ylabel("Jaccard over teacher pairs")
    axes.set_xticks(x)
    axes.set_ylim(0, 1.02)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return Figure("fig-redundancy", svg(figure))
