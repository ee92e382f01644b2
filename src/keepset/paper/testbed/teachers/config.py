"""What a teacher is and how it is trained, as one frozen config that is saved beside the weights."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from keepset.files import Frozen
from keepset.paper.testbed.tasks import Vocabulary, find_condition
from keepset.paper.testbed.tasks.mixture import DRAWS_PER_STEP
from keepset.seeds import DRAWS

Positive = Annotated[int, Field(ge=1)]


class Architecture(Frozen):
    """A small ``transformers`` causal LM."""

    family: Literal["llama", "qwen3"]
    """``llama`` is the paper's; ``qwen3`` adds QK-norm."""
    layers: Positive
    heads: Positive
    width: Positive
    mlp_width: Positive
    rope_theta: float = 10_000.0
    qk_norm_start: float = 1.0
    """Initial weight of the query norm (qwen3 only): above 1 sharpens attention at the start."""
    attention_bias: bool = False
    """Biases in the attention projections: a head that looks at a fixed offset needs no content then."""
    offset_heads: Annotated[int, Field(ge=0)] = 0
    """In the first two layers, head h < offset_heads starts out looking h + 1 tokens back (needs
    attention_bias). Reading a record means joining neighbouring tokens; finding those offsets by
    gradient is most of the plateau at which small teachers guess."""
    zero_output_projections: bool = False
    """Start every attention and MLP output projection at zero, so each layer starts as the identity."""

    @model_validator(mode="after")
    def _heads_divide_width(self) -> "Architecture":
        if self.width % self.heads or (self.width // self.heads) % 2:
            raise ValueError(
                f"width must be an even multiple of heads (rotary pairs), got width {self.width}, heads {self.heads}"
            )
        return self


class Optimizer(Frozen):
    """Learning rates hold after warm-up and fall on a cosine from ``decay_start`` to the last step."""

    name: Literal["adamw", "muon"]
    """``muon`` updates the matrices inside the layers with Muon and the rest with AdamW."""
    lr: float
    """Peak AdamW learning rate."""
    muon_lr: float = 0.0
    """Peak Muon learning rate; unused by ``adamw``."""
    weight_decay: float = 0.01
    betas: tuple[float, float] = (0.9, 0.999)
    warmup_steps: Annotated[int, Field(ge=0)]
    decay_start: Annotated[int, Field(ge=0)]
    """The step at which the cosine starts; the paper's starts right after warm-up."""
    final_ratio: float = 0.1
    """Last learning rate as a share of the peak."""
    clip: float = 1.0
    """Gradient-norm clip."""


class Stage(Frozen):
    """Until which step, at which length, on which mixture."""

    until: Positive
    """The stage covers steps up to, not including, this one."""
    n_blocks: Positive
    mixture: dict[str, float]
    """Condition name -> share of the batch."""

    @model_validator(mode="after")
    def _conditions_exist(self) -> "Stage":
        if not self.mixture:
            raise ValueError("mixture: expected at least one condition, got none")
        for name, share in self.mixture.items():
            find_condition(name)
            if share <= 0:
                raise ValueError(f"mixture: share of {name!r} must be positive, got {share}")
        return self


class TeacherConfig(Frozen):
    """Everything that decides a teacher's weights."""

    preset: str
    mixture: str
    """Name of the task mixture: one of ``presets.MIXTURES``."""
    seed: Annotated[int, Field(ge=0, lt=1_000)]
    vocabulary: Vocabulary
    n_blocks: Positive
    """Blocks of a full-length training context; conditions scale it."""
    block_width: Annotated[int, Field(ge=4)]
    n_queries: Positive = 8
    """Queries per training sequence. Evaluation asks one."""
    batch: Positive
    architecture: Architecture
    optimizer: Optimizer
    stages: tuple[Stage, ...]
    bf16: bool = False
    """Matrix products in bfloat16 (autocast); weights stay fp32."""
    compile: bool = False
    """Run the model through ``torch.compile``."""
    monitor_every: Positive = 50
    """Steps between looks at held-out accuracy."""

    @property
    def steps(self) -> int:
        return self.stages[-1].until

    @property
    def max_positions(self) -> int:
        """Room for the four-times-longer contexts of the evaluation."""
        return 4 * self.n_blocks * self.block_width + 4 * self.n_queries

    @model_validator(mode="after")
    def _stages_in_order(self) -> "TeacherConfig":
        ends = [stage.until for stage in self.stages]
        if not ends or sorted(set(ends)) != ends:
            raise ValueError(f"stages: expected strictly increasing 'until' steps, got {ends}")
        most = DRAWS // DRAWS_PER_STEP
        if ends[-1] > most:
            raise ValueError(f"stages: the seed range of a run has room for {most} steps, got {ends[-1]}")
        return self

    def stage(self, step: int) -> Stage:
        """The stage that covers ``step``."""
        return next(stage for stage in self.stages if step < stage.until)
