"""One arm's routers of either kind, and the seeds that a run of them names."""

from keepset import seeds
from keepset.paper.testbed.routers import Router, build_router
from keepset.paper.testbed.teachers.config import TeacherConfig
from keepset.routers import Loss, Stream, train_routers
from keepset.routers.training import LEARNING_RATE


def fit_arm(
    kind: str,
    config: TeacherConfig,
    arm: str,
    loss: Loss,
    stream: Stream,
    router_seeds: int,
    steps: int,
    learning_rate: float = LEARNING_RATE,
) -> list[Router]:
    """One router per seed, on the targets that ``stream`` has for ``arm``."""

    def build(seed: int) -> Router:
        return build_router(kind, config.vocabulary, config.block_width, seed)

    return train_routers(build, range(router_seeds), {arm: loss}, stream, steps, learning_rate)[arm]


def training_seeds(run: int) -> dict[str, int]:
    """Where routers begin, and the order they read their table in. The table's examples are those of run 0, always."""
    return {"router_init": seeds.ROUTER_INIT.seed(0), "router_stream": seeds.ROUTER_STREAM.seed(run)}
