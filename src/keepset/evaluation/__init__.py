"""Stage 8: what a model, a label or a policy is worth, with intervals."""
