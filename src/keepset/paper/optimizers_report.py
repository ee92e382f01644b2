"""Steps and seconds until a teacher has solved a task, per optimizer."""

from keepset.paper.result import RunResult
from keepset.paper.table import Table


def optimizers_table(results: list[RunResult]) -> Table:
    """One row per run; 'not reached' where the run ended first."""
    rows = []
    for result in sorted(results, key=lambda r: (r.config["label"], r.config["seed"])):
        cells = []
        for task in result.config["tasks"]:
            reached = {m.name: m.value for m in result.metrics}
            step = reached.get(f"{task}_solved_step")
            minutes = reached.get(f"{task}_solved_seconds", 0.0) / 60
            cells.append(f"step {step:.0f} ({minutes:.1f} min)" if step is not None else "not reached")
            cells.append(f"{reached[f'{task}_best']:.2f}")
        rows.append((result.config["label"], str(result.config["seed"]), str(result.counts["steps"]), *cells))
    tasks = results[0].config["tasks"]
    columns = [column for task in tasks for column in (f"{task} ≥ {results[0].config['threshold']}", "best")]
    return Table(
        name="time-to-solve",
        caption=(
            "When a small teacher first reaches the threshold on held-out single-query examples "
            f"({results[0].metrics[0].n} per look), per optimizer, same stages and data stream."
        ),
        columns=("Optimizer", "seed", "steps run", *columns),
        rows=tuple(rows),
        notes=("Minutes are of one thread while other work shared the machine: compare the steps.",),
    )
