"""Stage 9: one thin file per result of the paper."""
