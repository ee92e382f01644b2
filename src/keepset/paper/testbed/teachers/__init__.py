"""Dense teachers: plain transformers causal LMs with small configs, and their training."""
