"""Named, disjoint ranges of random seeds.

Every random draw in keepset names the range it comes from, so an evaluation set can never
repeat a training batch and a router can never see a teacher's stream.
"""

from dataclasses import dataclass

RUNS = 1_000
"""How many runs (teacher or router seeds) a range has room for."""

DRAWS = 1_000_000
"""How many draws (steps, batches) one run has room for."""


@dataclass(frozen=True)
class SeedRange:
    """``RUNS * DRAWS`` consecutive seeds with a name."""

    name: str
    start: int

    @property
    def stop(self) -> int:
        return self.start + RUNS * DRAWS

    def seed(self, run: int, draw: int = 0) -> int:
        """The seed of draw ``draw`` in run ``run``."""
        if not 0 <= run < RUNS:
            raise ValueError(f"seed range {self.name!r}: run must be in [0, {RUNS}), got {run}")
        if not 0 <= draw < DRAWS:
            raise ValueError(f"seed range {self.name!r}: draw must be in [0, {DRAWS}), got {draw}")
        return self.start + run * DRAWS + draw


_NAMES = (
    "teacher_init",
    "teacher_stream",
    "teacher_monitor",
    "evaluation",
    "router_init",
    "router_stream",
    "intervention",
    "statistics",
    "router_documents",
)

SEED_RANGES = {name: SeedRange(name, i * RUNS * DRAWS) for i, name in enumerate(_NAMES)}

TEACHER_INIT = SEED_RANGES["teacher_init"]
TEACHER_STREAM = SEED_RANGES["teacher_stream"]
TEACHER_MONITOR = SEED_RANGES["teacher_monitor"]
EVALUATION = SEED_RANGES["evaluation"]
ROUTER_INIT = SEED_RANGES["router_init"]
ROUTER_STREAM = SEED_RANGES["router_stream"]
INTERVENTION = SEED_RANGES["intervention"]
STATISTICS = SEED_RANGES["statistics"]
ROUTER_DOCUMENTS = SEED_RANGES["router_documents"]
