"""Only the tokens somebody reads, at their true positions; common beginnings are computed once.

Per call: write every view as a string, link the strings into a tree (``trie``), then walk the tree. One
forward runs many paths of similar length, of one example or of many, side by side (``packing``).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from operator import eq

import torch
from torch import Tensor
from transformers import PreTrainedModel

from keepset.blocks import Example
from keepset.interventions.executors.base import MAX_TOKENS, Ask, Executor
from keepset.interventions.executors.layout import Job, Layout, Reading, layout_of, read_logits, sequence_tokens
from keepset.interventions.executors.packing import patterns_of, reach_of, slots_of, visible_positions, who_reads_whom
from keepset.interventions.executors.trie import Path, pieces, plan
from keepset.interventions.operators import Mask, Operator
from keepset.models.cache import KeysValues, growing, kept, lend, without_last
from keepset.models.masks import expand, model_mask
from keepset.models.memory import is_out_of_memory

FULL_FORWARD = {"cpu": 512}
"""Device -> how many tokens a forward needs before its cost is that of its tokens. Up to there shorter paths
join it, padded; beyond, only paths of equal length do."""
FULL_FORWARD_ELSEWHERE = 8_192


@dataclass
class Forward:
    """One forward of several paths, before anything is read from it."""

    paths: list[Path]
    logits: Tensor
    """(B, C, V) at the columns somebody reads."""
    columns: dict[int, int]
    """Column of the forward -> its place among the C."""
    computed: KeysValues | None
    allowed: Tensor
    """(B, R, S) bool."""
    positions: Tensor
    """(B, S) true positions of the columns."""

    @property
    def width(self) -> int:
        return self.allowed.shape[1]

    def read_columns(self, path: Path) -> list[list[int]]:
        return [[self.width - len(path.layout) + row for row in rows] for rows in path.layout.reads]


Finish = Callable[[Forward], None]


class Fast(Executor):
    """Exact, and several times cheaper than the reference."""

    def __init__(self, model: PreTrainedModel, operator: Operator | None = None, max_tokens: int = MAX_TOKENS) -> None:
        super().__init__(model, operator, max_tokens)
        self._holding: dict[int, Example] = {}  # by identity; the reference keeps the identity from being reused
        self._same: dict[int, int] = {}
        self._trunks: dict[int, Path] = {}
        self._known: dict[object, list[Reading]] = {}

    @contextmanager
    def hold(self, examples: Sequence[Example]) -> Iterator[None]:
        """Inside, the first and longest path of each example (the clean one, asked first) serves later calls too, and
        what was read once is known.

        Examples that differ only after their last block, as a prompt cut before its question does, share one.
        """
        self._holding = {id(example): example for example in examples}
        self._same = self._sharing(examples)
        try:
            yield
        finally:
            self._holding, self._same, self._trunks, self._known = {}, {}, {}, {}

    def read(self, asks: Sequence[Ask], temperature: float = 1.0) -> list[list[Reading]]:
        def key(ask: Ask) -> object:
            return id(ask.example), ask.keep, ask.continuations, temperature

        new = [ask for ask in asks if key(ask) not in self._known]
        read = {key(ask): found for ask, found in zip(new, super().read(new, temperature), strict=True)}
        self._known |= {key(ask): read[key(ask)] for ask in new if id(ask.example) in self._holding}
        return [read.get(key(ask)) or self._known[key(ask)] for ask in asks]

    def _sharing(self, examples: Sequence[Example]) -> dict[int, int]:
        """Example -> the first one with the same blocks, by identity. Replacements may differ, so only under a mask."""
        if not isinstance(self.operator, Mask):
            return {}
        first: dict[object, int] = {}
        names = {}
        for example in examples:
            end = example.blocks[-1].stop if example.blocks else 0
            names[id(example)] = first.setdefault((example.blocks, tuple(example.tokens[:end].tolist())), id(example))
        return names

    def _run(self, jobs: list[Job], temperature: float) -> None:
        def finish(done: Forward) -> None:
            rows = [done.read_columns(path) for path in done.paths]
            read_logits(done.logits, done.columns, [path.job for path in done.paths], rows, temperature)

        self._walk(self._ready(jobs), finish)

    def _generate(self, jobs: list[Job], max_new_tokens: int, stop: frozenset[int]) -> None:
        self._walk(self._ready(jobs), lambda done: self._decode(done, max_new_tokens, stop), keep=True)

    def _ready(self, jobs: list[Job]) -> list[Path]:
        """The paths of all jobs, linked; those that need nothing computed first."""
        layouts: dict[object, Layout] = {}
        by_example: dict[int, list[Path]] = {}
        for job in jobs:
            example, view = job.example, job.view
            lengths = tuple(len(tokens) for tokens in job.continuations)
            key = (example.blocks, len(example.tokens), view.visible, lengths)
            if key not in layouts:  # the examples of a synthetic batch share their layouts
                layouts[key] = layout_of(visible_positions(example, view.visible), lengths)
            path = Path(job, layouts[key], pieces(example, view.string))
            by_example.setdefault(self._same.get(id(example), id(example)), []).append(path)
        ready = []
        for name, paths in by_example.items():
            trunk = self._trunks.get(name)
            if trunk is not None and trunk.computed is None:  # its forward failed
                trunk = None
            first = plan(paths, trunk)
            if trunk is None and name in self._holding:
                longest = max(first, key=lambda path: len(path.string))
                longest.held = True
                self._trunks[name] = longest
            ready += first
        return ready

    def _walk(self, paths: list[Path], finish: Finish, keep: bool = False) -> None:
        """Runs paths whose parents are computed, then their children, then lets go of what they shared."""
        by_parent: dict[int, list[Path]] = {}
        for path in paths:
            lender = path.parent.computed if path.parent and path.start else None
            by_parent.setdefault(id(lender), []).append(path)
        for group in by_parent.values():
            for chunk in self._chunks(group):
                self._forward(chunk, finish, keep)
                children = [child for path in chunk for child in path.children]
                if children:
                    self._walk(children, finish, keep)
                for path in chunk:
                    path.children = []
                    if not path.held:
                        path.computed = None

    def _chunks(self, paths: list[Path]) -> Iterator[list[Path]]:
        """Paths that run in one forward: similar lengths, and no more slots than the budget."""
        full = FULL_FORWARD.get(self.device.type, FULL_FORWARD_ELSEWHERE)
        chunk: list[Path] = []
        lent = 0
        for path in sorted(paths, key=lambda path: -path.new):
            reach = max(lent, reach_of(path))
            if chunk:
                longest = chunk[0].new
                fits = (len(chunk) + 1) * (reach + longest) <= self.max_tokens
                alike = path.new == longest or len(chunk) * longest < full
                if not (fits and alike):
                    yield chunk
                    chunk, reach = [], reach_of(path)
            chunk.append(path)
            lent = reach
        if chunk:
            yield chunk

    def _forward(self, paths: list[Path], finish: Finish, keep: bool) -> None:
        try:
            finish(self._compute(paths, keep))
            return
        except RuntimeError as error:
            if not is_out_of_memory(error) or len(paths) == 1:
                raise
        # Outside the handler: the error holds on to the tensors of the forward that failed.
        middle = len(paths) // 2
        self._forward(paths[:middle], finish, keep)
        self._forward(paths[middle:], finish, keep)

    def _compute(self, paths: list[Path], keep: bool) -> Forward:
        batch, width, reach = len(paths), max(path.new for path in paths), max(reach_of(path) for path in paths)
        parents = [path.parent for path in paths if path.parent is not None and path.start]
        past = parents[0].computed if parents else None

        # Paths of equal structure (one variant, many examples) share a mask.
        patterns, pattern_of = patterns_of(paths)
        allowed, positions = who_reads_whom(patterns, width, reach)
        if len(patterns) > 1:
            allowed, positions = allowed[pattern_of], positions[pattern_of]
        allowed, positions = allowed.to(self.device), positions.to(self.device)
        mask = model_mask(self.windows, allowed, positions[:, reach:], positions, self.model.dtype)
        if len(patterns) == 1:
            mask = expand(mask, batch)
            allowed, positions = allowed.expand(batch, -1, -1), positions.expand(batch, -1)

        tokens = torch.zeros(batch, width, dtype=torch.long)
        for b, path in enumerate(paths):
            tokens[b, width - path.new :] = sequence_tokens(path.layout, path.job)[path.start :]
        reads = {width - len(path.layout) + row for path in patterns for rows in path.layout.reads for row in rows}
        columns = sorted(reads)
        keep = keep or any(path.children or path.held for path in paths)
        cache = None
        if keep or past is not None:
            layers = self.model.config.get_text_config().num_hidden_layers
            cache = lend(past, [parent.row for parent in parents], reach, layers, keep)
        logits = self.model(
            tokens.to(self.device),
            attention_mask=mask,
            position_ids=positions[:, reach:],
            past_key_values=cache,
            use_cache=cache is not None,
            logits_to_keep=torch.tensor(columns, device=self.device),
        ).logits
        self.cost.tokens += tokens.numel()
        self.cost.forwards += 1

        computed = None
        if keep and cache is not None:
            computed = kept(cache)
            slots = [slots_of(path, width, reach) for path in patterns]
            for b, path in enumerate(paths):
                path.computed, path.slots, path.row = computed, slots[pattern_of[b]], b
        place = {column: i for i, column in enumerate(columns)}
        return Forward(paths, logits, place, computed, allowed, positions)

    def _decode(self, done: Forward, max_new_tokens: int, stop: frozenset[int]) -> None:
        """Greedy tokens for every path of a forward: as many guesses as were right for all, then one at a time."""
        rows = [done.read_columns(path) for path in done.paths]
        jobs = [path.job for path in done.paths]
        read_logits(done.logits, done.columns, jobs, rows, temperature=1.0)
        written = [job.reading.top[0] for job in jobs if job.reading is not None]
        guess = jobs[0].continuations[0][:-1]
        right = min(sum(1 for _ in takewhile(bool, map(eq, guess, found))) for found in written)
        for job, found in zip(jobs, written, strict=True):
            job.generated = found[: right + 1]
        wrong = len(guess) - right
        past = None if done.computed is None else without_last(done.computed, wrong)
        end, columns = done.width - wrong, done.allowed.shape[2] - wrong
        allowed, positions = done.allowed[:, end - 1 : end, :columns], done.positions[:, :columns]
        # One new token that reads every slot needs no mask, and heads then share keys without copying them.
        plain = self.windows is None and bool(allowed.all()) and self.model.config._attn_implementation == "sdpa"
        more = max_new_tokens - right - 1
        cache = None if past is None else growing(past, more)
        for _ in range(more):
            if all(stop & set(job.generated) for job in jobs):
                return
            tokens = torch.tensor([[job.generated[-1]] for job in jobs], device=self.device)
            allowed = torch.cat([allowed, torch.ones_like(allowed[:, :, :1])], dim=-1)
            positions = torch.cat([positions, positions[:, -1:] + 1], dim=-1)
            mask = None if plain else model_mask(self.windows, allowed, positions[:, -1:], positions, self.model.dtype)
            logits = self.model(
                tokens, attention_mask=mask, position_ids=positions[:, -1:], past_key_values=cache, use_cache=True
            ).logits
            self.cost.tokens += len(jobs)
            self.cost.forwards += 1
            for job, token in zip(jobs, logits[:, -1].argmax(-1).tolist(), strict=True):
                job.generated = (*job.generated, token)
