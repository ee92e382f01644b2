"""The three sizes a teacher comes in. A preset is a function that returns a frozen config.

``paper`` is the paper's teacher; ``small`` is what two CPU cores train honestly; ``smoke`` takes
seconds and serves the tests.
"""

from collections.abc import Callable

from keepset.models.config import Architecture, Optimizer, Stage, TeacherConfig
from keepset.tasks import Vocabulary

SINGLE_HOP = {"unique": 1.0, "latest_write": 1.0, "duplicate": 1.0}
FIVE_TASK = {**SINGLE_HOP, "multihop": 1.0, "aggregation": 1.0}
HARDENED = {**SINGLE_HOP, "multihop_hardened": 1.0, "aggregation": 1.0}

MIXTURES = {"single-hop": SINGLE_HOP, "five-task": FIVE_TASK, "hardened": HARDENED}
"""The paper's two mixtures, and the five tasks with hardened multi-hop in place of multi-hop."""


def paper(mixture: str, seed: int) -> TeacherConfig:
    """The paper's teacher (appendix C): 10.7M parameters, 32 blocks of 8, 30,000 or 45,000 steps."""
    steps = 30_000 if mixture == "single-hop" else 45_000
    return TeacherConfig(
        preset="paper",
        mixture=mixture,
        seed=seed,
        vocabulary=Vocabulary(families=16, members=16, values=64),
        n_blocks=32,
        block_width=8,
        batch=64,
        architecture=Architecture(family="llama", layers=6, heads=8, width=384, mlp_width=1024),
        optimizer=Optimizer(name="adamw", lr=3e-4, warmup_steps=200, decay_start=200),
        stages=(Stage(until=steps, n_blocks=32, mixture=find_mixture(mixture)),),
        monitor_every=500,
    )


def smoke(mixture: str, seed: int) -> TeacherConfig:
    """Seconds on one core: a tiny key space, 8 blocks; learns unique retrieval, not the rest."""
    return TeacherConfig(
        preset="smoke",
        mixture=mixture,
        seed=seed,
        vocabulary=Vocabulary(families=4, members=5, values=8),
        n_blocks=9,
        block_width=5,
        n_queries=4,
        batch=16,
        architecture=Architecture(
            family="qwen3",
            layers=2,
            heads=2,
            width=32,
            mlp_width=64,
            qk_norm_start=2.0,
            zero_output_projections=True,
        ),
        optimizer=Optimizer(name="muon", lr=2e-3, muon_lr=0.02, warmup_steps=10, decay_start=20),
        stages=(Stage(until=40, n_blocks=9, mixture=find_mixture(mixture)),),
        monitor_every=20,
    )


def find_mixture(name: str) -> dict[str, float]:
    """The task mixture called ``name``."""
    if name not in MIXTURES:
        raise ValueError(f"unknown mixture {name!r}; expected one of {', '.join(MIXTURES)}")
    return MIXTURES[name]


PRESETS: dict[str, Callable[[str, int], TeacherConfig]] = {"smoke": smoke, "paper": paper}


def find_preset(name: str) -> Callable[[str, int], TeacherConfig]:
    """The preset called ``name``: a function of mixture and seed."""
    if name not in PRESETS:
        raise ValueError(f"unknown preset {name!r}; expected one of {', '.join(PRESETS)}")
    return PRESETS[name]
