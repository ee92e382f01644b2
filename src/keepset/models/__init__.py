"""Stage 2: the models that answer. Teachers and pretrained models are the same thing: transformers causal LMs.

from keepset.models import BUNDLED, check_supported, fetch, load_model

model, tokenizer = load_model("smollm2-135m-instruct")     # fetched first, when it is not there
check_supported(model)                                     # ValueError with the reason, or interventions are exact
"""

from typing import TYPE_CHECKING

from keepset.lazily import on_first_use

if TYPE_CHECKING:
    from keepset.models.bundled import BUNDLED, fetch
    from keepset.models.capabilities import check_supported
    from keepset.models.loading import load_model

__all__ = ["BUNDLED", "check_supported", "fetch", "load_model"]

_HOMES = {
    "BUNDLED": "keepset.models.bundled",
    "check_supported": "keepset.models.capabilities",
    "fetch": "keepset.models.bundled",
    "load_model": "keepset.models.loading",
}
# Listing the models that can be had needs no torch.
__getattr__ = on_first_use(__name__, _HOMES)
