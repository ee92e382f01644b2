"""Seed ranges never meet."""

from itertools import pairwise

import pytest

from keepset.seeds import DRAWS, RUNS, SEED_RANGES, TEACHER_STREAM


def test_ranges_are_disjoint_and_known_by_their_name() -> None:
    ranges = sorted(SEED_RANGES.values(), key=lambda found: found.start)
    assert all(found.name == name for name, found in SEED_RANGES.items())
    assert all(before.stop <= after.start for before, after in pairwise(ranges))
    assert ranges[0].start >= 0


def test_every_seed_of_a_range_lies_inside_it_and_is_its_own() -> None:
    corners = [(0, 0), (0, DRAWS - 1), (1, 0), (RUNS - 1, 0), (RUNS - 1, DRAWS - 1)]
    for found in SEED_RANGES.values():
        seeds = [found.seed(run, draw) for run, draw in corners]
        assert seeds == sorted(set(seeds))
        assert seeds[0] == found.start
        assert seeds[-1] == found.stop - 1


@pytest.mark.parametrize("run", [-1, RUNS])
def test_a_run_outside_the_range_is_refused(run: int) -> None:
    with pytest.raises(ValueError, match=rf"seed range 'teacher_stream': run must be in \[0, 1000\), got {run}"):
        TEACHER_STREAM.seed(run)


@pytest.mark.parametrize("draw", [-1, DRAWS])
def test_a_draw_outside_the_run_is_refused(draw: int) -> None:
    with pytest.raises(ValueError, match=rf"seed range 'teacher_stream': draw must be in \[0, 1000000\), got {draw}"):
        TEACHER_STREAM.seed(0, draw)
