"""Stage 2: the models that answer. Teachers and pretrained models are the same thing: transformers causal LMs."""
