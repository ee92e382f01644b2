"""KVzip as kvpress runs it, in an environment of its own, on the tokens of the fact sheets.

Reading order: ``peer`` (runs there, imports nothing of keepset), ``experiment`` (hands it tokens, keeps what it says).
"""
