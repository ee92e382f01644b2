"""Which layer of the reader is worth reading: recall of evidence paragraphs by layer, everything else alike.

Every paper is scored by a router trained on the others (five folds), since the sample is small; no question, and no
words, so that the layer is what differs.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from keepset import seeds
from keepset.paper.bench.models import loaded
from keepset.paper.experiment import run_result
from keepset.paper.natural.measure import BUDGETS, clustered_share, kept_blocks
from keepset.paper.natural.training import Training, fit_wanted
from keepset.paper.result import Metric, RunResult
from keepset.routers.features import decoder_layers, hidden_after
from keepset.routers.reading import LEAD, WINDOW, sink_token
from keepset.text.prompt import encode, token_spans
from keepset.text.qasper import QasperPaper

FOLDS = 5


@dataclass(frozen=True, eq=False)
class Pooled:
    """The paragraphs of a paper at every layer."""

    by_layer: dict[int, Tensor]
    """Layer -> (N, 2D) mean and maximum."""
    words: list[int]
    wanted: Tensor


def run_layers(
    experiment: str, scale: str, reader: str, layers: Sequence[int], papers: Sequence[QasperPaper]
) -> RunResult:
    """``papers`` are not held out."""
    started = time.monotonic()
    pooled = [pool_layers(reader, layers, paper) for paper in papers]
    metrics: list[Metric] = []
    for layer in layers:
        metrics += crossed_recall(pooled, layer)
    return run_result(
        experiment,
        scale,
        started,
        at={"kind": "layers"},
        config={"reader": reader, "folds": FOLDS, "penalty": Training().state_penalty},
        seeds={"statistics": seeds.STATISTICS.seed(0)},
        counts={"papers": len(papers)},
        metrics=metrics,
        command=f"keepset bench {experiment} --data FOLDER --only layers",
    )


@torch.inference_mode()
def pool_layers(reader: str, layers: Sequence[int], paper: QasperPaper) -> Pooled:
    """One pass: what each of ``layers`` says of every token, window by window."""
    model, tokenizer = loaded(reader)
    tokens, offsets = encode(tokenizer, paper.text)
    spans = token_spans(offsets, paper.paragraphs, len(tokens))
    states: dict[int, list[Tensor]] = {layer: [] for layer in layers}
    found: dict[int, Tensor] = {}
    handles = [
        decoder_layers(model)[layer - 1].register_forward_hook(
            lambda module, inputs, output, layer=layer: found.__setitem__(
                layer, output if isinstance(output, Tensor) else output[0]
            )
        )
        for layer in layers[:-1]
    ]
    try:
        for start in range(0, len(tokens), WINDOW):
            before = max(0, start - LEAD)
            window = torch.tensor([[sink_token(tokenizer), *tokens[before : start + WINDOW]]])
            found[layers[-1]] = hidden_after(model, window, layers[-1])
            for layer in layers:
                states[layer].append(found[layer][0, 1 + start - before :].float())
    finally:
        for handle in handles:
            handle.remove()
    by_layer = {}
    for layer in layers:
        whole = torch.cat(states[layer])
        blocks = [whole[span.start : span.stop] for span in spans]
        by_layer[layer] = torch.stack([torch.cat([block.mean(0), block.amax(0)]) for block in blocks])
    words = [len(paper.text[start:stop].split()) for start, stop in paper.paragraphs]
    return Pooled(by_layer, words, torch.tensor([i in paper.evidence for i in range(len(words))]))


def crossed_recall(papers: Sequence[Pooled], layer: int) -> list[Metric]:
    counted: dict[float, list[tuple[int, int]]] = {budget: [] for budget in BUDGETS}
    for fold in range(FOLDS):
        training = [paper for i, paper in enumerate(papers) if i % FOLDS != fold]
        odds = fit(training, layer)
        for paper in papers[fold::FOLDS]:
            lengths = torch.tensor(paper.words).float().clamp(min=1).log()
            with torch.no_grad():
                scores = logsigmoid(odds(paper.by_layer[layer])) - Training().length_power * lengths
            wanted = frozenset(paper.wanted.nonzero().flatten().tolist())
            for budget in BUDGETS:
                counted[budget].append((len(wanted & kept_blocks(scores, paper.words, budget)), len(wanted)))
    return [clustered_share("recall", pairs, layer=layer, budget=budget) for budget, pairs in counted.items()]


def fit(papers: Sequence[Pooled], layer: int) -> Callable[[Tensor], Tensor]:
    """Logistic regression on standardised features, as the router's own of its one layer."""
    rows = torch.cat([paper.by_layer[layer] for paper in papers])
    center, scale = rows.mean(0), rows.std(0).clamp(min=1e-3)
    linear = nn.Linear(rows.shape[1], 1)
    nn.init.zeros_(linear.weight)

    def odds(rows: Tensor) -> Tensor:
        found: Tensor = linear((rows - center) / scale).squeeze(-1)
        return found

    fit_wanted(lambda: odds(rows), papers, {linear.weight: Training().state_penalty}, linear.bias)
    return odds
