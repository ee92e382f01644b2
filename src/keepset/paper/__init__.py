"""The laboratory: the paper's tables and figures, and the runs behind them. The library never imports it.

    from keepset.paper import results

    frame = results()                                          # every tracked number, a column per coordinate
    frame[frame.what == "routed"].groupby("arm").value.mean()

Reading order: ``result`` (one run on disk), ``results`` (all of them as a data frame), ``experiment`` (what a file of
the laboratory declares), ``table``, ``claim``, then any experiment, and ``report``, which renders them all.
"""

# Not on first use: importing the file ``results`` later would put the module in the place of the function.
from keepset.paper.results import results

__all__ = ["results"]
