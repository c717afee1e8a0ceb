"""Fleets under any faults; `make cells` plays many more."""

from tests.cells.rounds import play


def test_every_opened_sum_is_exact_and_no_two_of_a_round_are_opened() -> None:
    played = [play(seed) for seed in range(150)]
    assert sum(one.opened for one in played) > 40
    assert sum(one.knowing for one in played) > 200
