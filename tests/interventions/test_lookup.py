"""What a continuation is guessed to say: what followed the same tokens before."""

from keepset.interventions.executors.lookup import looked_up


def test_what_followed_the_same_tokens_is_looked_up() -> None:
    assert looked_up((0, 1, 2, 3, 4, 9, 0, 1, 2), 4) == (3, 4, 9, 0)
    assert looked_up((0, 1, 2, 3, 0, 1, 2, 5, 6, 0, 1, 2), 2) == (5, 6), "the last place"
    assert looked_up((7, 7, 7, 7), 4) == (7,)
    assert looked_up((0, 1, 2, 3, 0, 1, 2), 0) == looked_up((1, 2, 3, 1, 2), 4) == looked_up((1,), 4) == ()
