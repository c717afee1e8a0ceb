"""Who may send to whom: the order of a device's peers is the order in which it turns to them."""

from collections.abc import Callable

from sottovoce.errors import UsageError


def _exponential(i: int, n: int) -> list[int]:
    """Directed exponential graph: i + 1, i + 2, i + 4, … (Assran et al. 2019)."""
    return [(i + 2**j) % n for j in range((n - 1).bit_length())]


def _ring(i: int, n: int) -> list[int]:
    return sorted({(i + 1) % n, (i - 1) % n} - {i})


def _star(i: int, n: int) -> list[int]:
    return list(range(1, n)) if i == 0 else [0]


def _full(i: int, n: int) -> list[int]:
    return [(i + j) % n for j in range(1, n)]


def _disconnected(i: int, n: int) -> list[int]:
    return []


def _seeds(i: int, n: int) -> list[int]:
    """One seed each; peer sampling finds the others."""
    return [(i + 1) % n]


NEWSCAST = "newscast"
TOPOLOGIES: dict[str, Callable[[int, int], list[int]]] = {
    "exponential": _exponential,
    "ring": _ring,
    "star": _star,
    "full": _full,
    "disconnected": _disconnected,
    NEWSCAST: _seeds,
}


def out_peers(name: str, agents: int) -> list[list[int]]:
    """For each of `agents` devices, the devices it sends to, in turn.

    Raises:
        UsageError: no such topology.
    """
    if name not in TOPOLOGIES:
        raise UsageError(f"unknown topology `{name}`; choose one of {', '.join(TOPOLOGIES)}")
    return [TOPOLOGIES[name](i, agents) if agents > 1 else [] for i in range(agents)]
