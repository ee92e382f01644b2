"""Benchmarks: engine, memory, router, prune."""

from migrate import moved, old_files, write

from keepset.paper.result import At, Metric
from keepset.readouts import READOUTS

QUARTILES = {"_q25": "q25", "_q75": "q75"}


def parted(name: str) -> tuple[str, str]:
    """A name without the quartile at its end, and the quartile."""
    for end, quantile in QUARTILES.items():
        if name.endswith(end):
            return name.removesuffix(end), quantile
    return name, "median"


def ordered(metrics: list[Metric]) -> list[Metric]:
    """q25, median, q75, where the old files had the median first."""
    place = {"q25": 0, "median": 1, "q75": 2}
    groups: dict[tuple[str, str], list[Metric]] = {}
    for metric in metrics:
        rest = {k: v for k, v in metric.at.items() if k != "quantile"}
        groups.setdefault((metric.what, str(rest)), []).append(metric)
    return [m for g in groups.values() for m in sorted(g, key=lambda m: place.get(str(m.at.get("quantile")), 0))]


def engine(name: str) -> tuple[str, At]:
    name, quantile = parted(name)
    if name in ("same_labels", "largest_gap", "clean_correct", "certificates"):
        return name, {}
    if "_over_" in name:
        slow, rest = name.split("_over_")
        quick, what = rest.split("_")
        return f"{what}_times", {"side": quick, "against": slow, "quantile": quantile}
    side, what = name.split("_", 1)
    spent: At = {"quantile": quantile} if what in ("seconds", "wall_seconds", "tokens") else {}
    return what, {"side": side, **spent}


def router(name: str) -> tuple[str, At]:
    name, quantile = parted(name)
    side, rest = name.split("_", 1)
    if rest == "growth":
        return "growth", {"side": side, "quantile": quantile}
    n, what = rest.split("_")
    what = {"seconds": "seconds", "share": "share_of_teacher"}[what]
    return what, {"side": side, "n_blocks": int(n.removeprefix("n")), "quantile": quantile}


def prune(name: str) -> tuple[str, At]:
    name, quantile = parted(name)
    *side, what = name.split("/")
    at: At = {"side": side[0]} if len(side) == 1 else {"side": "pruned", "mode": side[0], "budget": float(side[1])}
    if side == ["router"]:
        return {"seconds": "seconds", "share": "seconds_ratio"}[what], at | {"phase": "prefill", "quantile": quantile}
    if what.startswith("peak_"):
        return what, at
    for phase in ("prefill_and_router", "prefill", "read", "answer"):
        if what.startswith(f"{phase}_"):
            return what.removeprefix(phase + "_").replace("ratio", "seconds_ratio"), at | {
                "phase": phase,
                "quantile": quantile,
            }
    return what, at | {"quantile": quantile}


def memory() -> None:
    for old in old_files("bench", "memory").values():
        rename = {"peak_bytes": "peak_bytes", "peak_bytes_after_loading": "peak_bytes_before"}
        metrics = moved(old, lambda name: (rename[name], {}))
        metrics.append(Metric(what="wall_seconds", value=old["seconds"], n=1))
        write(old, "memory/effects", {"kind": "effects"}, metrics)
    for old in old_files("bench", "memory-readouts").values():
        found = {m["name"]: m["value"] for m in old["metrics"]}
        before = found["peak_bytes_after_loading"]
        for place, name in enumerate(n.removesuffix("_seconds") for n in found if n.endswith("_seconds")):
            short = next(key for key, readout in READOUTS.items() if readout.__name__ == name)
            # One process for all: the peak before a readout is the one after the readout before it.
            values = {"peak_bytes": found[f"{name}_peak_bytes"], "peak_bytes_before": before}
            values["seconds"] = found[f"{name}_seconds"]
            before = values["peak_bytes"]
            metrics = [Metric(what=what, value=value, n=1) for what, value in values.items()]
            config = old["config"] | {"split_from": "bench/memory-readouts.json", "place": place}
            at: At = {"kind": "readout", "readout": short}
            write(old, f"memory/readout-{short}", at, metrics, config=config, experiment="memory")
    for old in old_files("bench", "memory-policies").values():
        found = {m["name"]: m["value"] for m in old["metrics"]}
        for name in ("momentkv", "kvzip"):
            whats = ("peak_bytes", "peak_bytes_before", "seconds")
            metrics = [Metric(what=what, value=found[f"{name}_{what}"], n=1) for what in whats]
            config = {k: v for k, v in old["config"].items() if not k.endswith("_tokens")}
            config |= {"tokens": old["config"][f"{name}_tokens"], "split_from": "bench/memory-policies.json"}
            at = {"kind": "policy", "policy": name}
            write(old, f"memory/policy-{name}", at, metrics, config=config, experiment="memory")


for old in old_files("bench", "engine").values():
    at: At = {key: old["config"][key] for key in ("subject", "n_blocks")}
    write(old, f"engine/{at['subject']}-{at['n_blocks']}", at, ordered(moved(old, engine)))
for old in old_files("bench", "router").values():
    write(old, "router/five-task", {"mixture": "five-task"}, ordered(moved(old, router)))
for old in old_files("bench", "prune").values():
    at = {key: old["config"][key] for key in ("model", "length")}
    write(old, f"prune/{at['model']}-{at['length']}", at, ordered(moved(old, prune)))
memory()
