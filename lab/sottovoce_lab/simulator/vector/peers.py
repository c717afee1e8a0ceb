"""Selection of the peer that a device sends to in a cycle."""

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from sottovoce.errors import UsageError

from sottovoce_lab.simulator.newscast_vector import NewscastOverlay

Recipients = NDArray[np.int64]

_VIEW = 30


class Peers(Protocol):
    """Rule for selecting a peer."""

    def draw(self, online: NDArray[np.bool_]) -> Recipients:
        """Draw one peer for every device, online or not, int64[nodes]; -1 for a device without peers."""
        ...


class Overlay:
    """Peers from NewsCast views, which make one exchange of their own in every cycle.

    Args:
        nodes: number of devices, at least 2.
        drop: probability that a message of the overlay is lost.
        generator: generator of all randomness.
    """

    def __init__(self, nodes: int, drop: float, generator: np.random.Generator) -> None:
        self._views = NewscastOverlay(nodes, _VIEW, int(generator.integers(2**63)))
        self._drop = drop
        self._generator = generator

    def draw(self, online: NDArray[np.bool_]) -> Recipients:
        """See Peers.draw."""
        self._views.cycle(online, self._drop)
        return self._views.sample(self._generator).astype(np.int64)


class _Graph:
    """Peers computed from the device's own number by a rule."""

    def __init__(
        self, nodes: int, rule: Callable[[int, np.random.Generator], Recipients], generator: np.random.Generator
    ) -> None:
        self._nodes = nodes
        self._rule = rule
        self._generator = generator

    def draw(self, online: NDArray[np.bool_]) -> Recipients:
        """See Peers.draw."""
        if self._nodes == 1:
            return np.full(1, -1)
        drawn = np.arange(self._nodes) + self._rule(self._nodes, self._generator)
        drawn -= self._nodes * (drawn >= self._nodes)
        drawn += self._nodes * (drawn < 0)
        return drawn


def _uniform(nodes: int, generator: np.random.Generator) -> Recipients:
    """Draw any other device, uniformly, as NewsCast approximates."""
    return generator.integers(1, nodes, nodes)


def _ring(nodes: int, generator: np.random.Generator) -> Recipients:
    """Draw one of the two neighbours."""
    return 2 * generator.integers(0, 2, nodes) - 1


def _exponential(nodes: int, generator: np.random.Generator) -> Recipients:
    """Draw the device 1, 2, 4, … places further on, at random (Assran et al. 2019)."""
    return 1 << generator.integers(0, (nodes - 1).bit_length(), nodes)


_RULES = {"uniform": _uniform, "full": _uniform, "ring": _ring, "exponential": _exponential}
PEERS = (*_RULES, "newscast")


def peers_named(name: str, nodes: int, drop: float, generator: np.random.Generator) -> Peers:
    """Return the peers of a topology.

    Args:
        name: `uniform` or `full`: any other device; `ring`; `exponential`; `newscast`: views of 30 entries.
        nodes: number of devices.
        drop: probability that a message of NewsCast itself is lost.
        generator: generator of all randomness.

    Raises:
        UsageError: for an unknown topology.
    """
    if name == "newscast" and nodes > 1:
        return Overlay(nodes, drop, generator)
    if name not in PEERS:
        raise UsageError(f"topology `{name}`: choose one of {', '.join(PEERS)}")
    return _Graph(nodes, _RULES.get(name, _uniform), generator)
