"""Which models are asked what, by scale. A size of 0 leaves the model out of that experiment."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from keepset.models.bundled import BUNDLED, fetched
from keepset.models.quantize import Quantize
from keepset.paper.bench.models import TINY, loaded, short_name
from keepset.routers.streams import BATCH

RUN = 67
"""Of the seed ranges used: away from every other experiment's."""
PART = 25
"""Examples of one result file: what a stopped run loses at most."""
RECORDS = 16
"""The paper's context; twice as many where length is shifted."""
OBSOLETE = 2
"""Earlier writes of the queried name in conflicting facts."""
BUDGETS = (1, 2, 4)
"""Records kept; two unless said otherwise."""
BUDGET = 2
EPOCHS = 15
PAPER_LESSONS = 2_000
LEAST_STEPS = EPOCHS * (PAPER_LESSONS // BATCH)
"""Of a router's training: the paper's 15 epochs over its 2,000 lessons. From fewer lessons a router learns as long."""


@dataclass(frozen=True)
class Setting:
    """What is run on one model; sizes are examples."""

    model: str
    probed: int = 0
    """Per task: masking and readouts without any training (``tab:pretrained``)."""
    probed_unique: int | None = None
    """Of unique retrieval, where it is another number."""
    weighed: int = 0
    """How far ahead the answer is, and whether any other record changes that."""
    audited: int = 0
    """Spans and sinks."""
    judged: int = 0
    """Per task and record count, of every routed accuracy."""
    lessons: int = 0
    """That routers learn from, half of each task."""
    absorbed: int = 0
    """That routers learn from with each sentence before the records (``tab:prefix``)."""
    overwritten: int = 0
    """Per task, for both operators."""
    scaled: tuple[tuple[int, int], ...] = ()
    """Record count and lessons: labels recovered without annotations."""
    hops: int = 0
    """Of two hops: readouts as oracles."""
    hop_lessons: int = 0
    """That routers learn from on two hops."""
    many_hop_lessons: int = 0
    """Annotated ones, which cost no forward."""
    articles: int = 0
    """Questions of counterfactual SQuAD."""
    article_lessons: int = 0
    least_steps: int = LEAST_STEPS
    quantize: Quantize | None = None
    part: int = PART

    @property
    def name(self) -> str:
        return short_name(self.model, self.quantize)

    def size_of(self, task: str) -> int:
        return self.probed if task != "unique" or self.probed_unique is None else self.probed_unique


_PAPER = Setting(
    "",
    probed=400,
    weighed=100,
    audited=10,
    judged=150,
    lessons=2_000,
    absorbed=2_000,
    hops=200,
    hop_lessons=2_000,
)

SETTINGS: dict[str, tuple[Setting, ...]] = {
    "smoke": (
        Setting(
            TINY,
            probed=3,
            weighed=3,
            audited=2,
            judged=3,
            lessons=6,
            absorbed=4,
            overwritten=2,
            scaled=((8, 4),),
            hops=3,
            hop_lessons=4,
            many_hop_lessons=8,
            articles=2,
            article_lessons=3,
            least_steps=4,
            part=2,
        ),
    ),
    "small": (
        Setting(
            "smollm2-135m-instruct",
            probed=200,
            weighed=100,
            audited=10,
            judged=200,
            lessons=400,
            absorbed=200,
            overwritten=50,
            scaled=((16, 100), (32, 50), (64, 25)),
            hops=100,
            hop_lessons=200,
            many_hop_lessons=20_000,
            articles=100,
            article_lessons=100,
        ),
        Setting(
            "qwen2.5-coder-1.5b-instruct",
            probed=150,
            audited=10,
            judged=150,
            lessons=400,
            overwritten=50,
            scaled=((16, 50),),
            hops=150,
            hop_lessons=200,
            many_hop_lessons=20_000,
            articles=60,
            quantize="int8",
        ),
        Setting("gemma-3-270m", probed=100, audited=10),
    ),
    "paper": (
        Setting("Qwen/Qwen2.5-0.5B-Instruct", probed=400),
        Setting("Qwen/Qwen2.5-1.5B-Instruct", probed=400),
        replace(
            _PAPER,
            model="Qwen/Qwen2.5-3B-Instruct",
            overwritten=150,
            scaled=((16, 2_000), (32, 1_500), (64, 1_000), (128, 600)),
            articles=500,
            article_lessons=2_000,
        ),
        replace(_PAPER, model="Qwen/Qwen2.5-7B-Instruct", many_hop_lessons=20_000),
        Setting("Qwen/Qwen2.5-14B-Instruct", probed_unique=60),
        replace(_PAPER, model="01-ai/Yi-1.5-9B-Chat", overwritten=150),
        Setting("google/gemma-2-9b-it", probed=400, lessons=2_000, overwritten=150),
    ),
}
"""By scale, in the order in which they are run."""


def parts(n: int, size: int) -> Iterator[tuple[int, range]]:
    """Number of each part, and its examples."""
    for part, first in enumerate(range(0, n, size)):
        yield part, range(first, min(first + size, n))


def frozen(setting: Setting) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The model and its tokenizer, once for all jobs of a run."""
    if setting.model in BUNDLED and fetched(setting.model) is None:
        raise ValueError(f"{setting.model} is not on this machine; get it with: keepset models fetch {setting.model}")
    return loaded(setting.model, setting.quantize)
