"""The neighbourhoods of large cells: their size by exact tails, and the graph that every member derives."""

import random
from itertools import combinations

import pytest
from sottovoce.privacy.cell import Cell
from sottovoce.privacy.secure_sum.neighbourhoods import (
    MAX_COMPLETE,
    Neighbourhoods,
    _lower_bound,
    _upper_bound,
    cell_neighbourhood_size,
    neighbourhood_size,
)

CELL = Cell(130, 300, 8, 0.75)


@pytest.mark.parametrize(
    "size, colluding, silent, neighbours, threshold",
    [
        (300, 15, 75, 96, 56),
        (300, 30, 90, 168, 100),
        (1000, 50, 250, 168, 101),
        (1000, 100, 250, 228, 143),
        (10_000, 500, 2500, 240, 144),
        (10_000, 1000, 2500, 348, 218),
    ],
)
def test_sizes_follow_from_the_tails(size: int, colluding: int, silent: int, neighbours: int, threshold: int) -> None:
    found = neighbourhood_size(size, colluding, silent)
    assert found is not None
    assert (found.neighbours, found.threshold) == (neighbours, threshold)


@pytest.mark.parametrize("population, marked, drawn, odds", [(7, 3, 4, 5), (8, 8, 3, 9), (9, 0, 5, 2), (9, 5, 6, 50)])
def test_bounds_agree_with_all_draws(population: int, marked: int, drawn: int, odds: int) -> None:
    counts = [sum(one < marked for one in draw) for draw in combinations(range(population), drawn)]

    def is_rare(events: int) -> bool:
        return events * odds <= len(counts)

    assert _upper_bound(population, marked, drawn, odds) == next(
        bound for bound in range(drawn + 1) if is_rare(sum(found > bound for found in counts))
    )
    assert _lower_bound(population, marked, drawn, odds) == max(
        bound for bound in range(drawn + 1) if is_rare(sum(found < bound for found in counts))
    )


def test_small_cells_and_cells_with_many_colluding_members_are_complete() -> None:
    assert cell_neighbourhood_size(CELL, MAX_COMPLETE) is None
    assert cell_neighbourhood_size(CELL, MAX_COMPLETE + 1) is not None
    assert cell_neighbourhood_size(Cell(130, 300, 100, 0.75), 200) is None
    complete = Neighbourhoods(CELL, bytes(32), 20)
    assert complete.holders(7) == tuple(range(20))
    assert complete.threshold == CELL.opening_threshold(20)
    assert complete.joins([3])


def test_every_member_derives_the_same_regular_graph_from_the_roster() -> None:
    graph, other = Neighbourhoods(CELL, bytes(32), 200), Neighbourhoods(CELL, bytes([1]) * 32, 200)
    assert graph.sparse is not None
    assert graph.sparse.threshold > CELL.colluding
    for member in range(200):
        holders = graph.holders(member)
        assert len({*holders}) == graph.sparse.neighbours == graph.holder_count
        assert member not in holders
        assert all(graph.rank(other, member) == graph.holders(other).index(member) for other in holders)
        assert graph.holders(member) == Neighbourhoods(CELL, bytes(32), 200).holders(member)
    assert [graph.holders(one) for one in range(9)] != [other.holders(one) for one in range(9)]


def _is_connected(graph: Neighbourhoods, members: set[int]) -> bool:
    reached: set[int] = set()
    waiting = [min(members)]
    while waiting:
        member = waiting.pop()
        if member not in reached:
            reached.add(member)
            waiting.extend(members.intersection(graph.holders(member)) - reached)
    return reached == members


def _worst_survivors(graph: Neighbourhoods, rng: random.Random) -> tuple[set[int], set[int]]:
    """Return survivors from which two runs of neighbours on the ring are missing, but for as many colluding members.

    This is how an attacker cuts the ring, who chooses who is missing after it has seen the graph.
    """
    assert graph.sparse is not None
    half, ring = graph.sparse.neighbours // 2, graph._ring[0].tolist()
    first = rng.randrange(graph.size)
    second = first + half + rng.randrange(graph.size - 2 * half)
    runs = [[ring[(start + step) % graph.size] for step in range(half)] for start in (first, second)]
    kept = [rng.sample(run, min(half, max(0, CELL.colluding // 2 + rng.choice([-1, 0, 0, 1])))) for run in runs]
    colluding = {*kept[0], *kept[1][: CELL.colluding - len(kept[0])]}
    missing = {*runs[0], *runs[1]} - {*kept[0], *kept[1]}
    return {*range(graph.size)} - missing, colluding


def test_survivors_that_are_accepted_are_connected() -> None:
    rng, accepted, separated = random.Random(0), 0, 0
    for number in range(100):
        graph = Neighbourhoods(CELL, bytes([number]) * 32, 160)
        survivors, colluding = _worst_survivors(graph, rng)
        is_connected = _is_connected(graph, survivors - colluding)
        separated += not is_connected
        if graph.joins(survivors):
            accepted += 1
            assert is_connected
    assert accepted > 5
    assert separated > 5


def test_a_sum_opens_only_with_enough_holders_of_each_secret() -> None:
    graph = Neighbourhoods(CELL, bytes(32), 160)
    assert graph.opens(range(160), range(160))
    dealer = 17
    enough = {*range(160)} - {*graph.holders(dealer)[: graph.holder_count - graph.threshold]}
    assert graph.opens(enough, [dealer])
    assert not graph.opens(enough - {graph.holders(dealer)[-1]}, [dealer])


@pytest.mark.slow
def test_ten_thousand_random_graphs_keep_the_bounds() -> None:
    size, colluding, silent = 300, 15, 75
    graphs, broken, cell = 10_000, 0, Cell(300, 300, colluding, 0.75)
    rng = random.Random(1)
    for number in range(graphs):
        graph = Neighbourhoods(cell, number.to_bytes(32, "big"), size)
        survivors = {*rng.sample(range(size), size - silent)}
        broken += not (graph.joins(survivors) and graph.opens(survivors, range(size)))
    assert broken <= graphs // 1000
