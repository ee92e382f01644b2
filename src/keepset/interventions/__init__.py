"""Stage 3a: hide blocks, and measure what that does to the answer.

    from keepset.interventions import Effects, Fast, Mask

    executor = Fast(model, Mask())                     # any supported transformers causal LM, in evaluation mode
    effects = Effects(examples, executor)              # an ExampleBatch or a list of Examples; nothing runs yet
    effects.clean_correct                              # (B,) is the answer given with everything visible?
    effects.drop                                       # (B, N) nats lost when one block is hidden
    effects.flip                                       # (B, N) the answer is lost when one block is hidden
    effects.sufficient                                 # (B, N) the answer is given with one block alone
    executor.cost                                      # tokens and forwards it took
    Effects(examples, executor, TeacherForced(), effort="grouped")

Reading order: ``operators`` (how a block is removed), ``executors`` (how keep sets are run), ``scorers`` (is it still
the answer?), ``probe`` (each keep set once), ``effects`` and its cheaper efforts ``grouped`` and ``certified``;
``protocols`` for masks that differ by row and layer. Who reads whom is in ``keepset.models.masks``.
"""

from keepset.interventions.certified import Certificate, certify
from keepset.interventions.effects import Effects, Effort, check_effort
from keepset.interventions.executors import Ask, Cost, Executor, Fast, Reading, Reference
from keepset.interventions.grouped import group_test
from keepset.interventions.operators import Mask, Operator, Overwrite, View, filler
from keepset.interventions.probe import Probe, Search
from keepset.interventions.protocols import answer_logits, dense_prefill, per_layer_masks
from keepset.interventions.scorers import Confident, ForcedChoice, GoldToken, Score, Scorer, TeacherForced

__all__ = [
    "Ask",
    "Certificate",
    "Confident",
    "Cost",
    "Effects",
    "Effort",
    "Executor",
    "Fast",
    "ForcedChoice",
    "GoldToken",
    "Mask",
    "Operator",
    "Overwrite",
    "Probe",
    "Reading",
    "Reference",
    "Score",
    "Scorer",
    "Search",
    "TeacherForced",
    "View",
    "answer_logits",
    "certify",
    "check_effort",
    "dense_prefill",
    "filler",
    "group_test",
    "per_layer_masks",
]
