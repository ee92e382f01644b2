"""Stage 8: what one reply depends on: plan, answer, explanation, findings, words, terminal, page.

``keepset.explain(...)`` calls ``keepset.explain.explain``: package and function have one name, and importing the
package puts it where the function is looked up, so the package can be called.
"""

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from keepset.lazily import on_first_use

if TYPE_CHECKING:
    from keepset.explain.explanation import explain, explain_file
    from keepset.explain.report import Report

__all__ = ["Report", "explain", "explain_file"]

_HOMES = {
    "Report": "keepset.explain.report",
    "explain": "keepset.explain.explanation",
    "explain_file": "keepset.explain.explanation",
}
# Drawing a report needs no torch.
__getattr__ = on_first_use(__name__, _HOMES)


class _CallablePackage(ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from keepset.explain.explanation import explain

        return explain(*args, **kwargs)


sys.modules[__name__].__class__ = _CallablePackage
