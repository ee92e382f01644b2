"""The paper's operator, literally: one full-length row per keep set, with a 4D mask."""

from collections import defaultdict

import torch

from keepset.interventions.executors.base import Executor
from keepset.interventions.executors.layout import Job, Layout, layout_of, read_logits, sequence_tokens
from keepset.models.masks import block_numbers, keep_table, may_read, model_mask
from keepset.models.memory import is_out_of_memory


class Reference(Executor):
    """Every token of the context is computed for every keep set. Slow, and what the others are held to."""

    def _run(self, jobs: list[Job], temperature: float) -> None:
        by_length = defaultdict(list)
        for job in jobs:
            lengths = tuple(len(tokens) for tokens in job.continuations)
            by_length[len(job.example.tokens), lengths].append(job)
        for (n_tokens, lengths), group in by_length.items():
            layout = layout_of(torch.arange(n_tokens), lengths)
            rows = max(1, self.max_tokens // len(layout))
            for start in range(0, len(group), rows):
                self._forward(layout, group[start : start + rows], temperature)

    def _forward(self, layout: Layout, jobs: list[Job], temperature: float) -> None:
        try:
            self._compute(layout, jobs, temperature)
            return
        except RuntimeError as error:
            if not is_out_of_memory(error) or len(jobs) == 1:
                raise
        # Outside the handler: the error holds on to the tensors of the forward that failed.
        middle = len(jobs) // 2
        self._forward(layout, jobs[:middle], temperature)
        self._forward(layout, jobs[middle:], temperature)

    def _compute(self, layout: Layout, jobs: list[Job], temperature: float) -> None:
        allowed = torch.stack([self._allowed(layout, job) for job in jobs])  # (B, S, S)
        positions = layout.positions.to(self.device).expand(len(jobs), -1)
        mask = model_mask(self.windows, allowed.to(self.device), positions, positions, self.model.dtype)
        columns = sorted({row for rows in layout.reads for row in rows})
        tokens = torch.stack([sequence_tokens(layout, job) for job in jobs])
        logits = self.model(
            tokens.to(self.device),
            attention_mask=mask,
            position_ids=positions,
            use_cache=False,
            logits_to_keep=torch.tensor(columns, device=self.device),
        ).logits
        self.cost.tokens += tokens.numel()
        self.cost.forwards += 1
        place = {row: i for i, row in enumerate(columns)}
        read_logits(logits, place, jobs, [layout.reads] * len(jobs), temperature)

    def _allowed(self, layout: Layout, job: Job) -> torch.Tensor:
        """(S, S): the block rule over the context; continuations see the context's visible tokens and themselves."""
        numbers = torch.full((len(layout),), -1)
        numbers[: layout.context] = block_numbers(job.example.blocks, layout.context)
        allowed = may_read(numbers, keep_table(frozenset(job.view.visible), len(job.example.blocks)))
        branch = layout.branch
        return allowed & ((branch[None, :] == 0) | (branch[None, :] == branch[:, None]))

    def _generate(self, jobs: list[Job], max_new_tokens: int, stop: frozenset[int]) -> None:
        running = jobs
        for _ in range(max_new_tokens):
            for job in running:
                job.continuations = ((*job.generated, 0),)
            self._run(running, temperature=1.0)
            for job in running:
                assert job.reading is not None
                job.generated = (*job.generated, job.reading.top[0][-1])
            running = [job for job in running if job.generated[-1] not in stop]
            if not running:
                break
