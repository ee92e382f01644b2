"""Stage 8: what one reply depends on: plan, answer, explanation, findings, words, terminal, page.

``keepset.explain(...)`` calls ``keepset.explain.explain``: package and function have one name, and importing the
package puts it where the function is looked up, so the package can be called.
"""

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keepset.explain.explanation import explain, explain_file
    from keepset.explain.report import Report

__all__ = ["Report", "explain", "explain_file"]


def __getattr__(name: str) -> Any:
    # On first use: drawing a report needs no torch.
    if name in ("explain", "explain_file"):
        from keepset.explain import explanation

        return getattr(explanation, name)
    if name == "Report":
        from keepset.explain.report import Report

        return Report
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class _CallablePackage(ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from keepset.explain.explanation import explain

        return explain(*args, **kwargs)


sys.modules[__name__].__class__ = _CallablePackage
