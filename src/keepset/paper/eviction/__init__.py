"""Long documents pruned before or after the question: every policy, both modes (appendix on eviction)."""
