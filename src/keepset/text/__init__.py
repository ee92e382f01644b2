"""Stage 1: examples from text: anybody's, JSONL rows, RULER, register logs."""
