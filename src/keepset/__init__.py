"""keepset finds the context a language model's answer depends on, and keeps only that."""
