"""Where a result differs from the paper: one line each, with both numbers and the likeliest cause.

The numbers come from the results; the causes are ours, and say when they were not tested.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from keepset.paper.chains_report import seeds, spread, values
from keepset.paper.eviction.pool import pooled
from keepset.paper.orderings_report import pooled_over_results
from keepset.paper.result import RunResult, load_results
from keepset.paper.routing_report import from_source, over_teachers, paired_gap

Results = Mapping[str, list[RunResult]]
"""Experiment -> its results."""


@dataclass(frozen=True)
class Difference:
    """A result of the paper, and how to say what came out here."""

    result: str
    needs: tuple[str, ...]
    """Experiments."""
    paper: str
    here: Callable[[Results], str]
    cause: str


def teachers_of(results: Results, mixture: str) -> list[RunResult]:
    found = [result for result in results["teachers"] if result.config["mixture"] == mixture]
    if not found:
        raise KeyError(f"no teachers of the mixture {mixture}")
    return found


def condition_range(mixture: str, condition: str) -> Callable[[Results], str]:
    return lambda results: spread(values(teachers_of(results, mixture), condition))


def gap_at_four_times(results: Results) -> str:
    gap = paired_gap(from_source(results["routing"], 0), "unique_4x")
    return f"{gap.mean:+.3f} ± {gap.standard_error:.3f}"


def imitation_routers(results: Results) -> str:
    return spread([value for result in results["chains"] for value in seeds(result, "attention_multihop")])


def pooling_best(results: Results) -> str:
    (ablation,) = results["ablation"]
    arms = ("attention_kl", "attention_sparse_kl", "attention_coverage", "causal_coverage", "causal_kl")
    best = max(over_routers(ablation, arm, "multihop") for arm in arms)
    return f"at most {best:.2f}; random {over_teachers(ablation, 'random', 'multihop'):.2f}"


def over_routers(result: RunResult, arm: str, condition: str) -> float:
    return fmean(
        result.metric(f"{arm}_{condition}_t{teacher}_r{seed}").value
        for teacher in result.config["teachers"]
        for seed in range(result.config["router_seeds"])
    )


def hardened_arm(arm: str) -> Callable[[Results], str]:
    return lambda results: spread(seeds(results["hardened"][0], f"hardened-0_{arm}_multihop_hardened"))


def recovered_chains(estimator: str) -> Callable[[Results], str]:
    def here(results: Results) -> str:
        found = {result.config["estimator"]: result for result in results["recovered_routing"]}
        return spread(seeds(found[estimator], "multihop"))

    return here


def three_hops(results: Results) -> str:
    (result,) = results["hardened"]
    dense = [result.metric(f"{name}_dense_multihop_3hop").value for name in result.config["teachers"]]
    recall = [
        value for name in result.config["teachers"] for value in seeds(result, f"{name}_causal_multihop_3hop_chain")
    ]
    return f"dense {spread(dense)}, chain recall {spread(recall)}"


def evicted(length: int, condition: str, *policies: str, regime: str = "pre_query") -> Callable[[Results], str]:
    """Shares still answered on the larger model, mode global, a tenth of the blocks."""

    def here(results: Results) -> str:
        found = {(pool.model, pool.length): pool for pool in pooled(results["eviction"])}
        pool = found["qwen2.5-coder-1.5b-instruct", length]
        shares = [pool.shares[f"{condition}/{regime}/global/{policy}/0.1/preserved"] for policy in policies]
        return f"{', '.join(f'{share.value:.2f}' for share in shares)} at {length:,} tokens (n = {shares[0].n})"

    return here


DIFFERENCES = (
    Difference(
        "tab:app-teachers, unique retrieval",
        ("teachers",),
        "0.90–0.98",
        condition_range("single-hop", "unique"),
        "half as many records, and heads that start out looking at neighbours: nothing is left to learn. Gaps between "
        "routers have less room everywhere below",
    ),
    Difference(
        "tab:routing, dense at four times the length",
        ("teachers",),
        "0.32 unique, 0.42 latest",
        lambda r: (
            f"{spread(values(teachers_of(r, 'single-hop'), 'unique_4x'))} unique, "
            f"{spread(values(teachers_of(r, 'single-hop'), 'latest_write_4x'))} latest"
        ),
        "64 records here are twice the paper's training length, not four times; query-key norms keep attention sharp",
    ),
    Difference(
        "tab:routing, causal minus imitation, unique at four times the length",
        ("routing",),
        "+0.110 ± 0.012",
        gap_at_four_times,
        "the same sign with less room: imitation already reaches nearly all of it, and seven of 64 blocks are kept",
    ),
    Difference(
        "tab:agreement, adaptive attention",
        ("agreement",),
        "0.38–0.46",
        lambda r: spread(values(r["agreement"], "adaptive_mean")),
        "adaptive sets name most of the 16 blocks, and large sets agree by chance (the table has the chance columns)",
    ),
    Difference(
        "tab:chain, teacher attention as an oracle",
        ("oracles",),
        "0.41–0.98",
        lambda r: spread(values(r["oracles"], "attention_max_k3") + values(r["oracles"], "attention_mean_k3")),
        "our chains stand value first, so each pointer is resolved where it stands: the answer row attends to pointers "
        "and never to the value's record. The backward trace, which follows the path, finds the chain",
    ),
    Difference(
        "tab:chain, imitation routers",
        ("chains",),
        "0.36–0.98",
        imitation_routers,
        "a router that distils attention inherits what attention holds: see the line above",
    ),
    Difference(
        "tab:ablation, pooling routers on multi-hop",
        ("ablation",),
        "0.01–0.12; random 0.04",
        pooling_best,
        "the same failure; three of 16 blocks and a copied value are right more often than four of 32",
    ),
    Difference(
        "Section 5, hardened chains, imitation",
        ("hardened",),
        "0.97",
        hardened_arm("attention"),
        "half of the chains still stand value first and are resolved in place, and this teacher hardly attends to the "
        "value in the other half; not traced further",
    ),
    Difference(
        "Section 5, hardened chains, causal",
        ("hardened",),
        "0.99–1.00",
        hardened_arm("causal"),
        "one of three routers did not converge on half of the paper's batch and a table of 12,800 examples",
    ),
    Difference(
        "tab:trace-supervision, backward trace on hardened chains",
        ("hardened",),
        "0.98–0.99",
        hardened_arm("trace"),
        "this teacher's strongest path ends at the pointers: the trace's own three blocks seldom hold the value",
    ),
    Difference(
        "tab:recovered, sufficiency / flip, routed chains",
        ("recovered_routing",),
        "0.75",
        recovered_chains("sufficiency_flip"),
        "a lone end record is copied more often by small teachers, so more chain labels are that record alone",
    ),
    Difference(
        "tab:recovered, + verified delta prefix, routed chains",
        ("recovered_routing",),
        "0.73",
        recovered_chains("verified_prefix"),
        "we add the prefix to the evidence set as one set; the paper does not say how it joins the family",
    ),
    Difference(
        "Section 5, second hardened teacher",
        ("teachers",),
        "0.05 dense",
        condition_range("hardened", "multihop_hardened"),
        "both of ours learned it; the five-task teachers, which never saw a shuffled chain, take the place of one that "
        "cannot (hardened-chains has them)",
    ),
    Difference(
        "Section 5, three hops",
        ("hardened",),
        "dense 0.05, chain recall 0.997–1.00",
        three_hops,
        "a fifth layer is one more hop for some teachers; the router has two layers and was trained on chains of three",
    ),
    Difference(
        "fig:budget, aggregation from five blocks",
        ("budget",),
        "0.2 through half of the context",
        lambda r: f"{pooled_over_results(r['budget'], 'aggregation_k5').value:.2f} with 5 of 16 blocks",
        "our teachers learned to count on soft attention over matching records, which other records do not carry; "
        "untested whether the paper's positions, count range or optimizer make the difference",
    ),
    Difference(
        "fig:budget, multi-hop below the chain's size",
        ("budget",),
        "near chance",
        lambda r: f"{pooled_over_results(r['budget'], 'multihop_k2').value:.2f} with 2 blocks",
        "position order keeps the value first here, and a lone value is copied (the paper's own caution)",
    ),
    Difference(
        "tab:qa, multikey at 8K: causal, SnapKV",
        ("eviction",),
        "0.77, 0.88",
        evicted(1_024, "multikey", "causal_r0", "snapkv", regime="query_aware"),
        "48 documents per task are too few for the router to learn which key the question names: it keeps needles, not "
        "the one asked for, and three blocks hold few of them",
    ),
    Difference(
        "tab:pq8k, multikey at 10 %: causal, H2O",
        ("eviction",),
        "0.84, 0.11",
        evicted(1_024, "multikey", "causal_r0", "h2o"),
        "a tenth of 1,024 tokens is three blocks of 32, and four needles, some in two, need more: without the "
        "question nobody has room (column 'fits 10 %' of eviction-dense)",
    ),
    Difference(
        "tab:pq16k, multikey at 10 %: causal, H2O",
        ("eviction",),
        "0.83, 0.16",
        evicted(2_048, "multikey", "causal_r0", "h2o"),
        "the same ordering on few documents; KVzip, which the paper does not run, keeps the needles too",
    ),
    Difference(
        "tab:pq8k, register log at 10 %: causal, H2O, evidence set",
        ("eviction",),
        "0.93, 0.22, 0.13",
        evicted(1_024, "register_log", "causal_r0", "h2o", "oracle"),
        "the same ordering on few documents",
    ),
    Difference(
        "tab:pq-staleany at 10 %: causal, H2O",
        ("eviction",),
        "0.34, 0.25",
        evicted(1_024, "register_log_any", "causal_r0", "h2o"),
        "three blocks hold at most three registers. A correction is always current, an earlier write only if nothing "
        "corrects it, so the router is surest of corrections and keeps them first; not tested",
    ),
    Difference(
        "Routers flat from 32 to 128 blocks",
        ("router",),
        "flat, under 0.3 ms",
        lambda r: (
            f"{r['router'][0].metric('pooling_growth').value:.1f}× and "
            f"{r['router'][0].metric('chain_growth').value:.1f}× from 16 to 64 blocks"
        ),
        "one CPU thread pays for every block, a GPU does not notice so few",
    ),
)


def differences_page(small: Path, files: list[str]) -> str:
    """``docs/results/README.md``: what is here, and where it differs from the paper."""
    lines = [
        "# Results",
        "",
        "Everything in this folder is written by `keepset report` from the files in `results/`; a test holds the two",
        "together byte for byte. [orderings.md](orderings.md) has each claim the paper rests on with a verdict. The",
        "scale is `small` throughout: 16 blocks of 5 tokens, teachers of under a million parameters, two CPU cores.",
        "",
        "## Where a result differs from the paper",
        "",
        "| result | paper | here | likeliest cause |",
        "|---|---|---|---|",
    ]
    found = {name: load_results(small / folder, name) for name, folder in sources().items()}
    for difference in DIFFERENCES:
        if all(found[name] for name in difference.needs):
            with suppress(KeyError):  # a result of other conditions says nothing here
                cells = (difference.result, difference.paper, difference.here(found), difference.cause)
                lines.append("| " + " | ".join(cells) + " |")
    lines += ["", "## Tables and figures", ""]
    lines += [f"- [{name}]({name})" for name in sorted(files) if not name.endswith(".tex")]
    return "\n".join(lines) + "\n"


def sources() -> dict[str, str]:
    """Experiment -> its folder."""
    needed = {name for difference in DIFFERENCES for name in difference.needs}
    return {name: "bench" if name == "router" else name for name in sorted(needed)}
