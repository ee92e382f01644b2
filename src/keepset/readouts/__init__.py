"""Stage 3b: per-block scores read from one forward pass."""

from keepset.readouts.attention import answer_attention

__all__ = ["answer_attention"]
