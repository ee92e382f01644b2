"""How many keep sets are run on one example; all executors give the same numbers."""

from keepset.interventions.executors.base import Ask, Cost, Executor
from keepset.interventions.executors.fast import Fast
from keepset.interventions.executors.layout import Reading
from keepset.interventions.executors.reference import Reference

__all__ = ["Ask", "Cost", "Executor", "Fast", "Reading", "Reference"]
