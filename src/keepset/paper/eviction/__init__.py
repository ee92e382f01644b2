"""Long documents pruned before or after the question: every policy, both modes (appendix on eviction).

Reading order: ``experiment`` (what it declares), ``run`` with ``documents``, ``reader``, ``routers`` and ``tally`` (how
a result is made), ``columns`` and ``pool`` (what is compared), then ``tables``, ``figure`` and ``orderings``.
"""
