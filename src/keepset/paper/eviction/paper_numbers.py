"""The paper's numbers on eviction (Qwen2.5-7B), to stand beside ours.

Lengths are told as multiples of the routers' training length: 4K in the paper, so 2 is 8K, 4 is 16K and 8 is 32K.
"""

from collections.abc import Iterator

from keepset.paper.eviction.columns import CAUSAL, CAUSAL_SEEDS, IMITATION, ORACLE, Arm

LENGTHS = {2: "8K", 4: "16K", 8: "32K"}
BUDGETS = (0.1, 0.25, 0.5)
MAIN_BUDGET = BUDGETS[0]
H2O, MOMENTKV, RESTKV, SNAPKV = Arm("h2o"), Arm("momentkv"), Arm("restkv"), Arm("snapkv")

# tab:pq8k, tab:pq16k, tab:pq32k and tab:pq-staleany: per budget the columns below; the last one reads the question.
PRE_QUERY_COLUMNS = (CAUSAL, IMITATION, H2O, MOMENTKV, ORACLE, SNAPKV)
PRE_QUERY = {
    (2, "single"): ("0.86 0.63 0.75 0.86 0.98 0.92", "0.90 0.71 0.85 0.88 0.97 0.92", "0.97 0.88 0.93 0.92 1.00 1.00"),
    (2, "multikey"): (
        "0.84 0.12 0.11 0.11 0.89 0.88",
        "0.91 0.21 0.28 0.26 0.95 0.98",
        "0.91 0.42 0.53 0.42 0.93 0.98",
    ),
    (2, "variable_tracking"): (
        "0.34 0.00 0.00 0.00 0.00 0.10",
        "0.93 0.03 0.28 0.40 0.88 0.88",
        "0.98 0.26 0.88 0.83 0.93 0.97",
    ),
    (2, "register_log"): (
        "0.93 0.10 0.22 0.15 0.13 1.00",
        "1.00 0.20 0.72 0.40 0.48 1.00",
        "1.00 0.47 1.00 0.77 1.00 1.00",
    ),
    (4, "single"): ("1.00 0.52 0.93 0.97 1.00 1.00", "0.98 0.83 0.97 1.00 1.00 1.00", "0.98 0.95 0.98 1.00 1.00 0.98"),
    (4, "multikey"): (
        "0.83 0.16 0.16 0.14 0.95 0.84",
        "0.91 0.28 0.31 0.34 0.97 0.98",
        "0.95 0.60 0.59 0.53 0.97 1.00",
    ),
    (4, "variable_tracking"): (
        "0.85 0.00 0.04 0.21 0.79 0.81",
        "0.92 0.04 0.72 0.60 0.79 0.79",
        "0.91 0.34 0.85 0.85 0.79 0.92",
    ),
    (4, "register_log"): (
        "1.00 0.05 0.32 0.30 0.32 1.00",
        "1.00 0.28 1.00 0.45 1.00 1.00",
        "0.98 0.45 1.00 0.67 1.00 1.00",
    ),
    (8, "single"): ("1.00 0.50 0.97 0.98 1.00 1.00", "1.00 0.72 0.98 1.00 1.00 1.00", "0.97 0.97 1.00 1.00 1.00 1.00"),
    (8, "multikey"): (
        "0.72 0.12 0.10 0.10 0.84 0.84",
        "0.86 0.24 0.29 0.21 0.90 0.90",
        "0.93 0.50 0.53 0.41 0.95 0.97",
    ),
    (8, "variable_tracking"): (
        "0.76 0.00 0.38 0.40 0.67 0.67",
        "0.67 0.04 0.71 0.58 0.73 0.84",
        "0.78 0.22 0.78 0.73 0.60 0.76",
    ),
    (8, "register_log"): (
        "1.00 0.02 0.53 0.30 1.00 1.00",
        "1.00 0.23 1.00 0.80 1.00 1.00",
        "1.00 0.42 1.00 0.80 1.00 1.00",
    ),
    (2, "register_log_any"): (
        "0.34 0.20 0.25 0.20 0.44 0.88",
        "0.75 0.49 0.53 0.54 0.78 0.95",
        "0.98 0.69 0.76 0.80 1.00 1.00",
    ),
    (4, "register_log_any"): (
        "0.66 0.24 0.24 0.32 0.61 0.98",
        "0.98 0.39 0.76 0.75 0.98 1.00",
        "1.00 0.78 1.00 0.83 1.00 1.00",
    ),
    (8, "register_log_any"): (
        "1.00 0.25 0.37 0.33 1.00 0.98",
        "1.00 0.48 0.88 0.83 0.98 0.98",
        "1.00 0.65 1.00 0.97 1.00 1.00",
    ),
}

# tab:qa, at 10 %.
QUERY_AWARE_COLUMNS = (CAUSAL, IMITATION, SNAPKV, MOMENTKV, ORACLE)
QUERY_AWARE = {
    (2, "single"): "0.97 0.63 0.92 0.88 0.97",
    (4, "single"): "1.00 0.52 1.00 0.97 1.00",
    (2, "multikey"): "0.77 0.12 0.88 0.11 1.00",
    (4, "multikey"): "0.76 0.14 0.84 0.14 1.00",
    (2, "variable_tracking"): "0.79 0.00 0.10 0.00 0.91",
    (4, "variable_tracking"): "0.89 0.00 0.81 0.21 0.98",
    (2, "register_log"): "1.00 0.07 1.00 0.17 0.93",
    (4, "register_log"): "1.00 0.05 1.00 0.32 1.00",
}

# tab:pq-seeds: per budget the router seeds, at twice the training length.
SEEDS = {
    "single": ("0.86 0.90 0.92", "0.90 0.86 1.00"),
    "multikey": ("0.84 0.82 0.70", "0.91 0.91 0.91"),
    "variable_tracking": ("0.34 0.36 0.67", "0.93 0.97 0.97"),
    "register_log": ("0.93 0.90 0.93", "1.00 0.95 1.00"),
}

# tab:restkv: pre-query and query-aware, per budget.
RESTKV_ROWS = {
    (2, "single"): ("0.78 0.86 0.95", "0.95 0.93 0.97"),
    (4, "single"): ("0.92 0.93 0.97", "1.00 0.98 1.00"),
    (2, "multikey"): ("0.07 0.19 0.40", "0.82 0.98 0.98"),
    (4, "multikey"): ("0.14 0.24 0.48", "0.93 0.98 1.00"),
    (2, "variable_tracking"): ("0.00 0.07 0.24", "0.26 0.97 0.97"),
    (4, "variable_tracking"): ("0.09 0.34 0.60", "0.81 0.79 0.92"),
    (2, "register_log"): ("0.15 0.38 0.62", "1.00 1.00 1.00"),
    (4, "register_log"): ("0.60 0.67 0.82", "1.00 1.00 1.00"),
    (2, "register_log_any"): ("0.24 0.39 0.75", "0.90 0.95 1.00"),
    (4, "register_log_any"): ("0.34 0.61 0.73", "0.97 1.00 1.00"),
}

Key = tuple[int, str, str, Arm, float]
"""Multiple of the training length, condition, regime, policy, budget."""


def _cells() -> Iterator[tuple[Key, str]]:
    for (times, condition), rows in PRE_QUERY.items():
        for budget, row in zip(BUDGETS, rows, strict=True):
            for arm, value in zip(PRE_QUERY_COLUMNS, row.split(), strict=True):
                yield (times, condition, "query_aware" if arm == SNAPKV else "pre_query", arm, budget), value
    for (times, condition), row in QUERY_AWARE.items():
        for arm, value in zip(QUERY_AWARE_COLUMNS, row.split(), strict=True):
            yield (times, condition, "query_aware", arm, MAIN_BUDGET), value
    for condition, seeds in SEEDS.items():
        for budget, row in zip(BUDGETS, seeds, strict=False):
            for arm, value in zip(CAUSAL_SEEDS, row.split(), strict=True):
                yield (2, condition, "pre_query", arm, budget), value
    for (times, condition), regimes in RESTKV_ROWS.items():
        for regime, row in zip(("pre_query", "query_aware"), regimes, strict=True):
            for budget, value in zip(BUDGETS, row.split(), strict=True):
                yield (times, condition, regime, RESTKV, budget), value


PAPER: dict[Key, str] = dict(_cells())
