"""Multi-hop routing: ``tab:chain``, ``tab:chain-per-teacher``, ``tab:budget-readouts``, ``tab:trace-supervision``,
hardened chains, and routers on found families.
"""

from collections.abc import Sequence
from statistics import fmean

from keepset.paper.result import RunResult
from keepset.paper.table import Table

PAPER_BATCH = 64
LABELS = {"attention": "attention (KL)", "trace": "backward trace (coverage)", "causal": "causal (coverage)"}
PAPER_ROUTERS = {"attention": "0.36–0.98", "trace": "0.98–0.99", "causal": "0.99–1.00"}
PAPER_PER_TEACHER = {
    0: ("0.37 [0.36–0.38]", "0.99"),
    1: ("0.98 [0.97–0.98]", "1.00"),
    2: ("0.48 [0.44–0.51]", "0.99"),
    4: ("0.93 [0.93–0.94]", "0.99"),
}
"""The paper's teacher 3 did not learn chains."""
SELECTIONS = {
    "attention_max": ("Attention, answer position (max heads)", ("0.41–0.87", "0.30–0.96", "0.24–0.98", "0.26–1.00")),
    "attention_mean": ("Attention, answer position (mean heads)", ("0.48–0.98", "0.34–0.98", "0.29–0.99", "0.28–1.00")),
    "rollout": ("Attention rollout", ("0.24–0.99", "0.31–0.99", "0.57–0.99", "0.94–1.00")),
    "trace": ("Attention, backward trace", ("0.90–0.99", "0.96–0.99", "0.95–1.00", "0.97–1.00")),
    "ablation": ("Causal, ablation ranking", ("0.98–0.99", "0.98–1.00", "0.98–1.00", "0.98–1.00")),
    "annotated": ("Annotated chain, padded", ("0.99–1.00", "0.98–1.00", "0.98–1.00", "0.99–1.00")),
    "random": ("Random", ("0.04–0.08", "0.03–0.06", "0.05–0.07", "0.05–0.08")),
}
PAPER_OBSOLETE = {"annotated": "0.00", "trace": "0.91–1.00", "attention_max": "0.70–0.99"}

RECOVERED = {
    "sufficiency_flip": ("Sufficiency / flip family", ("0.75", "0.97", "0.92")),
    "verified_prefix": ("+ verified delta prefix", ("0.73", "0.96", "0.88")),
    "annotated_drops": ("Top-k delta, annotated size", ("0.99", "0.96", "0.79")),
    "budget_drops": ("Top-k delta, budget size", ("0.97", "0.88", "0.61")),
    "singletons_budget": ("Singletons, else budget delta", ("0.66", "0.97", "0.88")),
    "floored": ("Singletons, else floored delta", ("0.98", "0.97", "0.91")),
    "saliency": ("Input-gradient saliency", ("0.79", "0.92", "0.87")),
    "annotated": ("Annotated (not recovered)", ("0.99", "0.99", "0.93")),
}


def chain_table(routed: list[RunResult], oracles: list[RunResult]) -> Table:
    """``tab:chain``: labels and routers on multi-hop at the size of a chain."""
    rows: list[tuple[str, ...]] = [
        ("Dense teacher (no routing)", "", f"{spread(values(oracles, 'dense'))} (0.99)", ""),
        ("Oracle on labels", "annotated chain", f"{spread(values(oracles, 'annotated_k3'))} (0.99–1.00)", ""),
        ("Oracle on labels", "ablation ranking", f"{spread(values(oracles, 'ablation_k3'))} (0.98–0.99)", ""),
        (
            "Oracle on labels",
            "teacher attention",
            f"{spread(values(oracles, 'attention_max_k3') + values(oracles, 'attention_mean_k3'))} (0.41–0.98)",
            "",
        ),
        ("Oracle on labels", "attention, best layer", f"{spread(list(map(best_layer, oracles)))} (0.21–0.55)", ""),
    ]
    for arm, paper in (("attention", "0.37; 1.00/0.00/1.00"), ("causal", "0.99; 1.00/1.00/1.00")):
        first = teacher(routed, 0)
        accuracy, recall = paper.split("; ")
        rows.append(
            (
                "Chain router, seed 0",
                LABELS[arm],
                f"{fmean(seeds(first, f'{arm}_multihop')):.2f} ({accuracy})",
                f"{element_recall(first, arm, 'multihop', 3)} ({recall})",
            )
        )
    for arm, title in LABELS.items():
        runs = [value for result in routed for value in seeds(result, f"{arm}_multihop")]
        rows.append(("Chain router, all teachers", title, f"{spread(runs)} ({PAPER_ROUTERS[arm]})", ""))
    rows.append(("Random gates", "", f"{spread(values(routed, 'random_multihop'))} (0.04)", ""))
    return Table(
        name="tab-chain",
        caption=(
            f"Multi-hop routing at three blocks (of {oracles[0].config['n_blocks']}; the paper's 32). Oracles select "
            "from labels; ranges are over teachers and router seeds (the paper's in brackets). Chain recall is first "
            "pointer/second pointer/value, mean over router seeds. Best layer is post hoc, an upper bound."
        ),
        columns=("Selector", "Supervision", "Routed", "Chain recall"),
        rows=tuple(rows),
        notes=(teachers_note(routed),),
    )


def per_teacher_table(routed: list[RunResult]) -> Table:
    """``tab:chain-per-teacher``: every teacher's own labels."""
    rows = []
    for result in routed:
        seed = result.config["seed"]
        attention, causal = PAPER_PER_TEACHER.get(seed, ("not converged", "not converged"))
        rows.append(
            (
                f"seed {seed}",
                f"{result.metric('dense_multihop').value:.2f}",
                f"{bracket(seeds(result, 'attention_multihop'))} ({attention})",
                bracket(seeds(result, "trace_multihop")),
                f"{bracket(seeds(result, 'causal_multihop'))} ({causal})",
                element_recall(result, "attention", "multihop", 3),
                element_recall(result, "causal", "multihop", 3),
            )
        )
    return Table(
        name="tab-chain-per-teacher",
        caption=(
            "Chain routers trained on each teacher's own labels: mean over router seeds with the range in brackets "
            "(the paper's in round ones). Recall is first pointer/second pointer/value."
        ),
        columns=(
            "Teacher",
            "Dense",
            "Attention (KL)",
            "Backward trace",
            "Causal (coverage)",
            "Recall, attention",
            "Recall, causal",
        ),
        rows=tuple(rows),
        notes=(teachers_note(routed),),
    )


def budget_readouts_table(oracles: list[RunResult]) -> Table:
    """``tab:budget-readouts``: every selection at four budgets."""
    budgets = oracles[0].config["budgets"]
    n_blocks = oracles[0].config["n_blocks"]
    rows = []
    for name, (title, paper) in SELECTIONS.items():
        cells = [
            f"{spread(values(oracles, f'{name}_k{k}'))} ({theirs})" for k, theirs in zip(budgets, paper, strict=True)
        ]
        rows.append((title, *cells))
    return Table(
        name="tab-budget-readouts",
        caption=(
            f"Multi-hop routed on labels directly, ranges over teachers, at 3, 4, 5 and 8 of {n_blocks} blocks (the "
            "paper's, of 32 blocks, in brackets)."
        ),
        columns=("Selection", *(f"k = {k} ({k / n_blocks:.2f})" for k in budgets)),
        rows=tuple(rows),
        notes=(f"{len(oracles)} five-task teachers, {oracles[0].counts['examples']} examples each, small scale",),
    )


def trace_supervision_table(routed: list[RunResult], oracles: list[RunResult], hardened: list[RunResult]) -> Table:
    """``tab:trace-supervision``: three targets on chains, on hardened chains, and what they keep of obsolete writes."""
    (hard,) = hardened
    rows = []
    for arm, title, selection, papers in (
        ("causal", "Annotated evidence", "annotated", ("0.99–1.00", "0.99–1.00")),
        ("trace", "Backward trace", "trace", ("0.98–0.99", "0.98–0.99")),
        ("attention", "Answer-position attention", "attention_max", ("0.36–0.98", "0.97")),
    ):
        runs = [value for result in routed for value in seeds(result, f"{arm}_multihop")]
        rows.append(
            (
                title,
                f"{spread(runs)} ({papers[0]})",
                f"{spread(seeds(hard, f'hardened-0_{arm}_multihop_hardened'))} ({papers[1]})",
                f"{spread(values(oracles, f'{selection}_obsolete'))} ({PAPER_OBSOLETE[selection]})",
            )
        )
    return Table(
        name="tab-trace-supervision",
        caption=(
            "The backward trace as a target: chain routers trained on each label, ranges over teachers and router "
            "seeds (the paper's in brackets). The last column is how often the three selected blocks of a latest-write "
            "example hold a superseded write."
        ),
        columns=("Supervision", "Chains", "Hardened chains", "Keeps an obsolete write"),
        rows=tuple(rows),
        notes=(teachers_note(routed),),
    )


def hardened_table(hardened: list[RunResult]) -> Table:
    """End of Section 5: routers of the first hardened teacher on every teacher, and on three hops."""
    (result,) = hardened
    rows: list[tuple[str, ...]] = []
    for condition, k in result.config["conditions"].items():
        for name in result.config["teachers"]:
            routers = [
                cell
                for arm in ("attention", "trace", "causal")
                for cell in (
                    bracket(seeds(result, f"{name}_{arm}_{condition}")),
                    f"{fmean(seeds(result, f'{name}_{arm}_{condition}_chain')):.2f}",
                )
            ]
            dense = result.metric(f"{name}_dense_{condition}").value
            chance = result.metric(f"{name}_random_{condition}").value
            rows.append((f"{condition}, k = {k}", name, f"{dense:.2f}", *routers, f"{chance:.2f}"))
        rows.append(())
    return Table(
        name="hardened-chains",
        caption=(
            "Chain routers trained on hardened multi-hop with the labels of hardened-0, routed on every teacher: mean "
            "over router seeds with the range, and how often the whole chain is kept. Paper: attention 0.97, causal "
            "0.99–1.00 on the first teacher; 0.91 on the second (0.05 dense); three hops 0.38 routed against 0.05 "
            "dense, with chain recall 0.997–1.00."
        ),
        columns=(
            "Condition",
            "Teacher",
            "Dense",
            "Attention",
            "chain",
            "Trace",
            "chain",
            "Causal",
            "chain",
            "Random",
        ),
        rows=tuple(rows[:-1]),
        notes=(counts_note(result),),
    )


def recovered_routing_table(routed: list[RunResult]) -> Table:
    """The routed columns of ``tab:recovered``: routers that learned from each estimator's labels alone."""
    found = {result.config["estimator"]: result for result in routed}
    rows = []
    for estimator, (title, papers) in RECOVERED.items():
        if estimator in found:
            result = found[estimator]
            cells = [
                f"{bracket(seeds(result, condition))} ({theirs})"
                for condition, theirs in zip(("multihop", "unique", "latest_write"), papers, strict=True)
            ]
            rows.append((title, *cells, bracket(seeds(result, "multihop_chain"))))
    return Table(
        name="tab-recovered-routing",
        caption=(
            "Routed accuracy of chain routers trained on recovered labels alone, teacher 0, mean over router seeds "
            "with the range (the paper's in round brackets). Multi-hop keeps three blocks, the others a tenth."
        ),
        columns=("Estimator", "Multi-hop", "Unique", "Latest", "Whole chain kept"),
        rows=tuple(rows),
        notes=(counts_note(routed[0]),),
    )


def family_routing_table(routed: list[RunResult]) -> Table:
    """Routers for two disjoint chains, by the label they learned from."""
    titles = {
        "families": "Found families (ours)",
        "floored": "Floored drops, else singletons (the paper's estimator)",
        "evidence": "Evidence set",
        "greedy": "Greedy set",
        "attention": "Attention (KL)",
        "annotated": "Annotated chains (upper bound)",
    }
    found = {result.config["label"]: result for result in routed}
    rows = [
        (title, *(bracket(seeds(found[label], what)) for what in ("chain", "routed", "nonce")))
        for label, title in titles.items()
        if label in found
    ]
    chance = routed[0]
    rows.append(("Random", *(f"{chance.metric(f'{what}_random').value:.2f}" for what in ("chain", "routed", "nonce"))))
    return Table(
        name="family-routing",
        caption=(
            "Two disjoint chains to one answer, three of 16 blocks kept by a chain router: mean over router seeds with "
            "the range. Masked accuracy can be had without a chain, by copying the only value left; with the rest "
            "overwritten by nonce records it cannot."
        ),
        columns=("Label the router learned from", "Keeps a whole chain", "Answers, rest masked", "Answers, rest nonce"),
        rows=tuple(rows),
        notes=(counts_note(routed[0]),),
    )


def values(results: Sequence[RunResult], name: str) -> list[float]:
    return [result.metric(name).value for result in results]


def seeds(result: RunResult, name: str) -> list[float]:
    """One value per router seed."""
    return [result.metric(f"{name}_r{seed}").value for seed in range(result.config["router_seeds"])]


def spread(found: Sequence[float]) -> str:
    """The range, or the one value when all print alike."""
    low, high = f"{min(found):.2f}", f"{max(found):.2f}"
    return low if low == high else f"{low}–{high}"


def bracket(found: Sequence[float]) -> str:
    return f"{fmean(found):.2f} [{min(found):.2f}–{max(found):.2f}]"


def element_recall(result: RunResult, arm: str, condition: str, length: int) -> str:
    return "/".join(f"{fmean(seeds(result, f'{arm}_{condition}_record{place}')):.2f}" for place in range(length))


def best_layer(result: RunResult) -> float:
    return max(result.metric(f"attention_layer{layer}_k3").value for layer in range(result.config["layers"]))


def teacher(results: Sequence[RunResult], seed: int) -> RunResult:
    return next(result for result in results if result.config["seed"] == seed)


def teachers_note(results: Sequence[RunResult]) -> str:
    other = [result for result in results if batch_size(result) != batch_size(results[-1])]
    apart = "".join(
        f"; seed {r.config['seed']}: batches of {batch_size(r)}, {r.counts['table']:,} examples" for r in other
    )
    return f"{len(results)} five-task teachers; {counts_note(results[-1])}{apart}"


def counts_note(result: RunResult) -> str:
    return (
        f"{result.counts['examples']} examples, {result.config['router_seeds']} router seeds, "
        f"{result.counts['table']:,} labelled examples, {result.counts['steps']:,} steps of {batch_size(result)}; "
        "small scale"
    )


def batch_size(result: RunResult) -> int:
    """Examples of a step; runs that do not say took the paper's."""
    return result.counts.get("batch", PAPER_BATCH)
