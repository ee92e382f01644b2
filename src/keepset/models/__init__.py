"""Stage 2: the models that answer. Teachers and pretrained models are the same thing: transformers causal LMs.

from keepset.models import BUNDLED, check_supported, fetch, load_model

model, tokenizer = load_model("smollm2-135m-instruct")     # fetched first, when it is not there
check_supported(model)                                     # ValueError with the reason, or interventions are exact
"""

from keepset.models.bundled import BUNDLED, fetch
from keepset.models.capabilities import check_supported
from keepset.models.loading import load_model

__all__ = ["BUNDLED", "check_supported", "fetch", "load_model"]
