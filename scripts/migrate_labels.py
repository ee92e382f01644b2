"""Schema 1 -> 2 of agreement, minimality, recovery, temperature, redundant."""

import re

from migrate import ROOT, moved, old_files, write

RECORDS = ["first_pointer", "second_pointer", "value"]
CONDITIONS = "unique|latest_write|multihop"


def agreement(name):
    if found := re.fullmatch(r"(causal|adaptive|ablation|attention_top_k)_(\d+)_(\d+)", name):
        return "jaccard", {"label": found[1], "teacher": int(found[2]), "other_teacher": int(found[3])}
    if found := re.fullmatch(r"(causal|adaptive|ablation|attention_top_k)_mean", name):
        return "mean_jaccard", {"label": found[1]}
    if found := re.fullmatch(r"(causal|adaptive)_(size|holds_obsolete)_(\d+)", name):
        return found[2], {"teacher": int(found[3]), "label": found[1]}
    if found := re.fullmatch(r"(match|cover)_(\d+)", name):
        return found[1], {"teacher": int(found[2]), "label": "causal"}
    found = re.fullmatch(r"(single_flip|top_attended_is_obsolete)_(\d+)", name)
    return found[1], {"teacher": int(found[2])}


def minimality(name):
    if found := re.fullmatch(r"hiding_(.*)_flips", name):
        return "hiding_flips", {"record": RECORDS.index(found[1])}
    return name, {}


def recovery(name):
    if name == "wrong":
        return name, {"condition": "mixture"}
    estimator, what, condition = re.fullmatch(rf"(.*)_(match|cover)(?:_({CONDITIONS}))?", name).groups()
    which = {"floor": float(estimator[6:])} if estimator.startswith("floor_") else {"estimator": estimator}
    return what, which | {"condition": condition or "mixture"}


def temperature(name):
    t, what = re.fullmatch(r"t([\d.]+)_(.*)", name).groups()
    what = "identical_to_temperature_1" if what == "identical" else what
    return what, {"temperature": float(t), "condition": "mixture"}


def redundant(name):
    if found := re.fullmatch(r"singletons_(in|off)_chain", name):
        return "sufficient_singletons", {"in_chain": found[1] == "in"}
    if found := re.fullmatch(r"(floored|attention|greedy)_cover", name):
        return "cover", {"label": found[1]}
    if found := re.fullmatch(r"(masked|nonce|confirmed)_(.*)", name):
        return found[2], {"label": found[1]}
    return name, {}


def simple(folder, experiment, rule, at, file, **config):
    for path, old in old_files(folder, experiment).items():
        c = old["config"]
        new = file(path, c)
        write(old, new, at(c), moved(old, rule), config=c | config)
        if ROOT / f"{new}.json" != path:
            path.unlink()


simple(
    "agreement",
    "agreement",
    agreement,
    lambda c: {"mixture": c["mixture"], "condition": c["condition"]},
    lambda p, c: f"agreement/{p.stem}",
    n_blocks=16,
)
simple(
    "minimality",
    "minimality",
    minimality,
    lambda c: {"mixture": c["mixture"], "teacher": c["seed"], "condition": c["condition"]},
    lambda p, c: f"minimality/{p.stem}",
)
teacher = lambda c: {"mixture": c["mixture"], "teacher": c["seed"]}  # noqa: E731
simple("recovery", "recovery", recovery, teacher, lambda p, c: f"recovery/{p.stem}")
simple("recovery", "temperature", temperature, teacher, lambda p, c: "temperature/five-task-0")

PARTS = {
    "labels": (None, "floored", "attention", "greedy"),
    "masked": ("masked",),
    "nonce": ("nonce", "confirmed"),
}
OF = {"labels": ["budget"], "masked": [], "nonce": ["alternatives", "confirming"]}
for path, old in old_files("redundant", "redundant").items():
    c = old["config"]
    metrics = moved(old, redundant)
    count = 0
    for part, labels in PARTS.items():
        mine = [m for m in metrics if m.at.get("label") in labels]
        count += len(mine)
        config = {"mixture": c["mixture"], "seed": c["seed"], "condition": "multihop_redundant"}
        config |= {k: c[k] for k in OF[part]} | {"split_from": f"redundant/{path.stem}"}
        counts = old["counts"] if part == "labels" else {"searched": old["counts"]["searched"]}
        write(
            old,
            f"redundant/{path.stem}-{part}",
            {"mixture": c["mixture"], "teacher": c["seed"], "condition": "multihop_redundant"},
            mine,
            config=config,
            counts=counts,
        )
    assert count == len(old["metrics"])
    path.unlink()
