"""The laboratory: the paper's tables and figures, and the runs behind them. The library never imports it.

    from keepset.paper import results

    frame = results()                                          # every tracked number, a column per coordinate
    frame[frame.what == "routed"].groupby("arm").value.mean()

Reading order: ``result`` (one run on disk), ``results`` (all of them as a data frame), ``experiment`` (what a file of
the laboratory declares), ``table``, ``claim``, then any experiment, and ``report``, which renders them all.
"""

from typing import Any

__all__ = ["results"]


def __getattr__(name: str) -> Any:
    # On first use: the laboratory's experiments must not pay for pandas, nor readers of results for torch.
    if name == "results":
        from keepset.paper.results import results

        return results
    raise AttributeError(f"module 'keepset.paper' has no attribute {name!r}")
