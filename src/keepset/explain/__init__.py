"""Stage 8: what one answer depends on: plan, effects, families, words, page."""
