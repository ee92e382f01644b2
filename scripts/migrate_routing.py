"""Schema 1 -> 2 for teachers, optimizers, sanity, routing, ablation and guard."""

import re
from collections import defaultdict
from typing import Any

from migrate import ROOT, moved, old_files, write

from keepset.paper.ablation import ARMS
from keepset.paper.dense import evaluation_seed
from keepset.paper.result import At, Metric
from keepset.paper.testbed.tasks.conditions import find_condition

BLOCKS = 16


def config_of(old: dict[str, Any], *dropped: str, **added: Any) -> dict[str, Any]:
    return {key: value for key, value in old["config"].items() if key not in dropped} | added


def blocks(old: dict[str, Any]) -> dict[str, int]:
    return {c: BLOCKS * find_condition(c).length for c in old["config"]["conditions"]}


def without(metric: Metric, *names: str) -> Metric:
    return metric.model_copy(update={"at": {k: v for k, v in metric.at.items() if k not in names}})


def key(metric: Metric) -> tuple[Any, ...]:
    return tuple(sorted(metric.at.items())), metric.what


def routed_name(name: str, conditions: list[str], arms: dict[str, At]) -> tuple[str, At]:
    for arm in sorted(arms, key=len, reverse=True):
        for condition in sorted(conditions, key=len, reverse=True):
            found = re.fullmatch(rf"{arm}_{condition}_t(\d+)(?:_r(\d+))?", name)
            if found:
                at: At = {"teacher": int(found[1]), "condition": condition}
                if found[2] is not None:
                    at["router_seed"] = int(found[2])
                return "routed", arms[arm] | at
    raise ValueError(name)


def split(old: dict[str, Any], arms: dict[str, At], names: tuple[str, ...]) -> dict[tuple[Any, ...], list[Metric]]:
    """Values of the coordinates ``names`` -> the metrics there, without these coordinates."""
    parts: dict[tuple[Any, ...], list[Metric]] = defaultdict(list)
    for metric in moved(old, lambda name: routed_name(name, old["config"]["conditions"], arms)):
        parts[tuple(metric.at.get(n) for n in names)].append(metric)
    return dict(parts)


gone = []

# teachers
for path, old in old_files("teachers", "teachers").items():
    at = {"mixture": old["config"]["mixture"], "teacher": old["config"]["seed"]}
    write(old, f"teachers/{path.stem}", at, moved(old, lambda name: ("accuracy", {"condition": name})))

# optimizers
for path, old in old_files("optimizers", "optimizers").items():
    at = {
        "mixture": old["config"]["teacher"]["mixture"],
        "teacher": old["config"]["seed"],
        "arm": old["config"]["label"],
    }

    def solved(name: str) -> tuple[str, At]:
        condition, what = re.fullmatch(r"(.*)_(best|solved_step|solved_seconds)", name).groups()  # type: ignore[union-attr]
        return what, {"condition": condition}

    write(old, f"optimizers/{path.stem}", at, moved(old, solved), config=config_of(old, "label", "seed"))

# sanity
for path, old in old_files("sanity", "sanity").items():
    at = {"mixture": old["config"]["mixture"], "teacher": old["config"]["seed"]}

    def anchor(name: str) -> tuple[str, At]:
        if name.startswith("annotated_suffices_"):
            return "annotated_suffices", {"condition": name.removeprefix("annotated_suffices_")}
        if name.startswith("hiding_"):
            return "flips", {"hidden": name.removeprefix("hiding_").removesuffix("_flips"), "condition": "unique"}
        if name.startswith("top_attended_is_annotated_"):
            heads = name.removeprefix("top_attended_is_annotated_").removesuffix("_heads")
            return "top_attended_is_annotated", {"heads": heads, "condition": "unique"}
        assert name == "mask_and_filler_agree", name
        return name, {"condition": "unique"}

    write(old, f"sanity/{path.stem}", at, moved(old, anchor), config=config_of(old, "mixture", "seed"))

# routing
single = {arm: {"arm": arm} for arm in ("dense", "random", "imitation", "causal")}
unrouted: dict[str, list[Metric]] = {}
routing_old = old_files("routing", "routing")
for path, old in routing_old.items():
    source = old["config"]["source"]
    parts = split(old, single, ("arm",))
    unrouted[path.stem] = parts.pop(("dense",)) + parts.pop(("random",))
    for (arm,), metrics in parts.items():
        config = config_of(
            old, "mixture", "source", "conditions", blocks=blocks(old), split_from=f"routing/{path.stem}"
        )
        at = {"mixture": old["config"]["mixture"], "source": source, "arm": arm}
        write(old, f"routing/source-{source}-{arm}", at, [without(m, "arm") for m in metrics], config=config)
    gone.append(path)
kept = unrouted["source-0"]
for name, copy in unrouted.items():
    assert {key(m): m for m in copy} == {key(m): m for m in kept}, name
old = next(iter(routing_old.values()))
config = config_of(
    old, "mixture", "source", "conditions", "router", "router_seeds", blocks=blocks(old), split_from="routing/source-0"
)
kept.sort(key=lambda m: (m.at["teacher"], list(blocks(old)).index(m.at["condition"]), m.at["arm"]))
write(
    old,
    "routing/unrouted",
    {"mixture": old["config"]["mixture"]},
    kept,
    config=config,
    seeds={"evaluation": evaluation_seed(old["config"]["conditions"][0])},
    counts={"examples": 300},
)

# guard
dense = {key(m): m for m in kept}
for path, old in old_files("guard", "guard").items():
    parts = split(old, single, ("arm",))
    for metric in parts.pop(("dense",)) + parts.pop(("random",)):
        assert dense[key(metric)] == metric, (path, metric)
    for (arm,), metrics in parts.items():
        config = config_of(
            old, "mixture", "source", "retuning", "conditions", blocks=blocks(old), split_from=f"guard/{path.stem}"
        )
        at = {
            "mixture": old["config"]["mixture"],
            "source": old["config"]["source"],
            "retuning": old["config"]["retuning"],
            "arm": arm,
        }
        write(old, f"guard/{path.stem}-{arm}", at, [without(m, "arm") for m in metrics], config=config)
    gone.append(path)

# ablation
both = {f"{label}_{loss}": {"label": label, "loss": loss} for label, loss in ARMS}
for path, old in old_files("ablation", "ablation").items():
    parts = split(old, both | {arm: {"arm": arm} for arm in ("dense", "random")}, ("label", "loss"))
    chance = parts.pop((None, None))
    where = {"mixture": old["config"]["mixture"]}
    dropped = ("mixture", "source", "conditions")
    added = {"blocks": blocks(old), "split_from": f"ablation/{path.stem}"}
    config = config_of(old, *dropped, "router", "router_seeds", **added)
    write(
        old,
        "ablation/unrouted",
        where,
        chance,
        config=config,
        seeds={"evaluation": evaluation_seed(old["config"]["conditions"][0])},
        counts={"examples": 300},
    )
    assert set(parts) == set(ARMS)
    for (label, loss), metrics in parts.items():
        at = where | {"source": old["config"]["source"], "label": label, "loss": loss}
        stripped = [without(m, "label", "loss") for m in metrics]
        write(old, f"ablation/{label}-{loss}", at, stripped, config=config_of(old, *dropped, **added))
    gone.append(path)

for path in gone:
    path.unlink()
    print("gone", path.relative_to(ROOT))
