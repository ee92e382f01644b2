"""Stage 3a."""
