"""Where a model runs, as somebody typed it."""

import torch


def check_device(device: torch.device | str) -> torch.device:
    """One that this machine has."""
    found = named_device(device)
    try:
        torch.empty(0, device=found)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device: {str(device)!r} is not usable here: {error}") from error
    return found


def named_device(device: torch.device | str) -> torch.device:
    """One that there is somewhere: a cluster may have what this machine has not."""
    try:
        return torch.device(device)
    except RuntimeError as error:
        raise ValueError(f"device: expected cpu, cuda, cuda:1 or mps, got {str(device)!r}") from error
