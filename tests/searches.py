"""Searches without a model: a rule answers what they ask."""

from collections.abc import Callable
from typing import Any

from keepset.blocks import KeepSet
from keepset.interventions import Score, Search

Rule = Callable[[KeepSet], bool]
"""Keep set -> whether the answer is given."""


def run_search(search: Search, rule: Rule) -> tuple[Any, int]:
    """What a search finds when ``rule`` decides every keep set, and how many it asked."""
    asked = 0
    keeps = next(search)
    while True:
        asked += len(keeps)
        try:
            keeps = search.send([Score(0.0, True) if rule(keep) else Score(-5.0, False) for keep in keeps])
        except StopIteration as stop:
            return stop.value, asked
