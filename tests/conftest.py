"""One thread, no network, and no deadline for Hypothesis: the tests must hold on a busy machine."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"  # before transformers is imported

import torch
from hypothesis import HealthCheck, settings

torch.set_num_threads(1)

settings.register_profile(
    "keepset", max_examples=30, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("keepset")
