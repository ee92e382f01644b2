"""Schema 1 -> 2 of oracles, chains, hardened, recovered_routing, family_routing, per_query and budget."""

import re
from typing import Any

from migrate import ROOT, moved, old_files, write

from keepset.paper.result import At, Metric

BUDGETS = {"multihop": 3, "multihop_hardened": 3, "multihop_3hop": 4}
CHAIN_NAME = re.compile(
    r"(?:(?P<mixture>hardened|five-task)-(?P<teacher>\d)_)?(?P<arm>dense|random|attention|trace|causal)_"
    r"(?P<condition>multihop_hardened|multihop_3hop|multihop)(?:_(?P<part>chain|record(?P<record>\d)))?"
    r"(?:_r(?P<seed>\d))?"
)
ROUTER_ARMS = ("attention", "trace", "causal")


def chain_name(name: str) -> tuple[str, At]:
    found = CHAIN_NAME.fullmatch(name)
    assert found, name
    at: At = {}
    if found["mixture"]:
        at |= {"mixture": found["mixture"], "teacher": int(found["teacher"])}
    at["condition"] = found["condition"]
    if found["arm"] != "dense":
        at["k"] = BUDGETS[found["condition"]]
    if found["seed"]:
        at["router_seed"] = int(found["seed"])
    if found["record"]:
        at["record"] = int(found["record"])
    what = "routed" if not found["part"] else "chain_recall" if found["part"] == "chain" else "recall"
    return what, at | {"arm": found["arm"]}


def by_arm(old: dict[str, Any]) -> dict[str, list[Metric]]:
    """Arm -> its numbers, without the arm; 'unrouted' -> dense and random, with it."""
    parts: dict[str, list[Metric]] = {arm: [] for arm in (*ROUTER_ARMS, "unrouted")}
    for metric in moved(old, chain_name):
        arm = str(metric.at["arm"])
        if arm in ROUTER_ARMS:
            at = {name: value for name, value in metric.at.items() if name != "arm"}
            parts[arm].append(metric.model_copy(update={"at": at}))
        else:
            parts["unrouted"].append(metric)
    return parts


def split(old: dict[str, Any], file: str, names: dict[str, str], at: At, evaluation: int) -> None:
    """One file per arm, and one of what no router had a part in."""
    counts = {"batch": 64} | old["counts"]  # the runs before the batch was counted took the paper's
    counts = {name: counts[name] for name in ("examples", "table", "steps", "batch")}
    config = old["config"] | {"split_from": file}
    for arm, metrics in by_arm(old).items():
        if arm == "unrouted":
            own = {n: v for n, v in config.items() if n not in ("router", "router_seeds", "source")}
            if "source" in at:
                own.pop("mixture")
            here = {n: v for n, v in at.items() if n != "source"}
            kept = {"config": own, "counts": {"examples": counts["examples"]}, "seeds": {"evaluation": evaluation}}
            write(old, names[arm], here, metrics, **kept)
        else:
            write(old, names[arm], at | {"arm": arm}, metrics, config=config, counts=counts)


def chains(evaluation: dict[str, int]) -> None:
    for path, old in old_files("chains", "chains").items():
        teacher = old["config"]["seed"]
        names = {arm: f"chains/five-task-{teacher}-{arm}" for arm in (*ROUTER_ARMS, "unrouted")}
        split(old, f"chains/{path.stem}", names, {"mixture": "five-task", "teacher": teacher}, evaluation["multihop"])
        path.unlink()


def hardened(evaluation: dict[str, int]) -> None:
    for path, old in old_files("hardened", "hardened").items():
        names = {arm: f"hardened/labels-0-{arm}" for arm in ROUTER_ARMS} | {"unrouted": "hardened/unrouted"}
        split(old, f"hardened/{path.stem}", names, {"source": 0}, evaluation["multihop_hardened"])
        path.unlink()


def oracles() -> None:
    def name(old: str) -> tuple[str, At]:
        if old == "dense":
            return "routed", {"condition": "multihop", "arm": "dense"}
        if old.endswith("_obsolete"):
            return "obsolete", {"condition": "latest_write", "arm": old.removesuffix("_obsolete")}
        arm, k = old.rsplit("_k", 1)
        if layer := re.fullmatch(r"attention_layer(\d+)", arm):
            return "routed", {"condition": "multihop", "arm": "attention_layer", "layer": int(layer[1]), "k": int(k)}
        return "routed", {"condition": "multihop", "arm": arm, "k": int(k)}

    for path, old in old_files("oracles", "oracles").items():
        write(old, f"oracles/{path.stem}", {"mixture": "five-task", "teacher": old["config"]["seed"]}, moved(old, name))


def recovered_routing() -> None:
    def name(old: str) -> tuple[str, At]:
        found = re.fullmatch(r"(unique|latest_write|multihop)(_chain)?_r(\d)", old)
        assert found, old
        at: At = {"condition": found[1], "k": 3 if found[1] == "multihop" else 2, "router_seed": int(found[3])}
        return ("chain_recall" if found[2] else "routed"), at

    for path, old in old_files("recovered_routing", "recovered_routing").items():
        at: At = {"mixture": "five-task", "teacher": 0, "estimator": old["config"]["estimator"]}
        write(old, f"recovered_routing/{path.stem}", at, moved(old, name))


def family_routing(evaluation: dict[str, int]) -> None:
    def name(old: str) -> tuple[str, At]:
        what, which = old.split("_")
        at: At = {"router_seed": int(which[1])} if which != "random" else {"router_seed": -1}
        operator: dict[str, At] = {"routed": {"operator": "mask"}, "nonce": {"operator": "nonce"}, "chain": {}}
        return ("chain_recall" if what == "chain" else "routed"), operator[what] | at

    chance: list[Metric] = []
    for path, old in old_files("family_routing", "family_routing").items():
        at: At = {"mixture": "five-task", "teacher": 0, "condition": "multihop_redundant"}
        metrics = moved(old, name)
        config = old["config"] | {"n_blocks": 16}
        label = old["config"]["label"]
        routed = [metric for metric in metrics if metric.at["router_seed"] != -1]
        write(old, f"family_routing/{path.stem}", at | {"label": label}, routed, config=config)
        found = [
            m.model_copy(update={"at": {n: v for n, v in m.at.items() if n != "router_seed"}})
            for m in metrics
            if m.at["router_seed"] == -1
        ]
        assert len(found) == 3
        assert not chance or chance == found, path
        if not chance:
            own = {n: v for n, v in config.items() if n not in ("label", "router", "router_seeds")}
            write(
                old,
                "family_routing/random",
                at | {"label": "random"},
                found,
                config=own | {"split_from": f"family_routing/{path.stem}"},
                counts={"examples": old["counts"]["examples"]},
                seeds={"evaluation": evaluation["multihop_redundant"]},
            )
        chance = found


def per_query() -> None:
    def name(old: str) -> tuple[str, At]:
        found = re.fullmatch(r"(.+)_(multihop|unique)(?:_(row|context))?", old)
        assert found, old
        return (f"{found[3]}_budget" if found[3] else "routed"), {"condition": found[2], "arm": found[1]}

    for path, old in old_files("per_query", "per_query").items():
        at: At = {"mixture": "five-task", "teacher": old["config"]["seed"]}
        write(old, f"per_query/{path.stem}", at, moved(old, name))


def budget() -> None:
    def name(old: str) -> tuple[str, At]:
        condition, k = old.rsplit("_k", 1)
        return "routed", {"condition": condition, "k": int(k)}

    for path, old in old_files("budget", "budget").items():
        at: At = {"mixture": "five-task", "teacher": old["config"]["seed"], "arm": "annotated"}
        write(old, f"budget/{path.stem}", at, moved(old, name))


if __name__ == "__main__":
    from keepset.paper.dense import evaluation_seed

    assert ROOT.is_dir()
    evaluation = {name: evaluation_seed(name) for name in ("multihop", "multihop_hardened", "multihop_redundant")}
    oracles()
    chains(evaluation)
    hardened(evaluation)
    recovered_routing()
    family_routing(evaluation)
    per_query()
    budget()
