"""Whether an error says that memory ran out."""

import torch


def is_out_of_memory(error: BaseException) -> bool:
    """Python and CUDA have a class for it; the CPU allocator only a message."""
    text = str(error).lower()
    return (
        isinstance(error, MemoryError | torch.OutOfMemoryError)
        or "not enough memory" in text
        or "can't allocate memory" in text
    )
