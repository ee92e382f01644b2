"""Eviction: one schema-1 file per part -> one file per part and policy, and ``dense``."""

from collections import defaultdict

from migrate import ROOT, old_files, write

from keepset.paper.result import Metric

for path, old in old_files("eviction", "eviction").items():
    config = old["config"]
    at = {"model": config["model"].split("/")[-1], "length": config["length"], "task": config["task"]}
    at["part"] = config["part"]
    kept = [max(1, int(budget * config["blocks"] + 1e-9)) for budget in config["budgets"]]  # rounded down then
    new_config = {name: value for name, value in config.items() if name not in ("task", "length", "part")}
    new_config |= {"kept_blocks": kept, "split_from": path.relative_to(ROOT).as_posix()}
    found: dict[str, list[Metric]] = defaultdict(list)
    for metric in old["metrics"]:
        numbers = {name: metric[name] for name in ("value", "n", "low", "high")}
        name = metric["name"].split("/")
        if len(name) == 2:
            found["dense"].append(Metric(what=name[1], at={"condition": name[0]}, **numbers))
        elif len(name) == 3:
            where = {"condition": name[0], "budget": float(name[2])}
            found["dense"].append(Metric(what=name[1], at=where, **numbers))
        else:
            condition, regime, mode, arm, budget, what = name
            policy, seeded, seed = arm.partition("_r")
            if policy not in ("causal", "imitation"):
                policy, seeded = arm, ""
            if what == "causal_ahead":
                what = "only_causal"
                if arm == "causal_r0":  # of itself: nought
                    assert metric["value"] == 0
                    continue
            where = {"condition": condition, "regime": regime, "mode": mode}
            where |= {"router_seed": int(seed)} if seeded else {}
            found[policy].append(Metric(what=what, at=where | {"budget": float(budget)}, **numbers))
    total = sum(len(metrics) for metrics in found.values())
    print(path.name, len(old["metrics"]), total, sorted(found))
    for policy, metrics in found.items():
        own = at if policy == "dense" else at | {"policy": policy}
        write(old, f"{path.relative_to(ROOT).with_suffix('')}/{policy}", own, metrics, config=new_config)
