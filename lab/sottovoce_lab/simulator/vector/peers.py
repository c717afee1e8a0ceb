"""Peer selection: rules that determine the peer to which a device sends in a cycle."""

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from sottovoce.errors import UsageError

from sottovoce_lab.simulator.newscast_vector import NewscastOverlay

Recipients = NDArray[np.int64]

_VIEW = 30


class Peers(Protocol):
    """A rule for selecting peers."""

    def draw(self, online: NDArray[np.bool_]) -> Recipients:
        """Select one peer for every device, online or offline, int64[nodes]; -1 for a device without peers."""
        ...


class Overlay:
    """Peer selection from NewsCast views, which are updated by one NewsCast exchange per device and cycle.

    Args:
        nodes: the number of devices, at least 2.
        drop: the probability that a NewsCast message is lost.
        generator: generates peer selections and exchanges.
    """

    def __init__(self, nodes: int, drop: float, generator: np.random.Generator) -> None:
        self._views = NewscastOverlay(nodes, _VIEW, int(generator.integers(2**63)))
        self._drop = drop
        self._generator = generator

    def draw(self, online: NDArray[np.bool_]) -> Recipients:
        """Select peers from the views, after updating them; see Peers.draw."""
        self._views.cycle(online, self._drop)
        return self._views.sample(self._generator).astype(np.int64)


class _Graph:
    """Peer selection in a fixed graph, by a rule that returns offsets from the device's own index."""

    def __init__(
        self, nodes: int, rule: Callable[[int, np.random.Generator], Recipients], generator: np.random.Generator
    ) -> None:
        self._nodes = nodes
        self._rule = rule
        self._generator = generator

    def draw(self, online: NDArray[np.bool_]) -> Recipients:
        """Select peers by the rule; see Peers.draw."""
        if self._nodes == 1:
            return np.full(1, -1)
        drawn = np.arange(self._nodes) + self._rule(self._nodes, self._generator)
        drawn -= self._nodes * (drawn >= self._nodes)
        drawn += self._nodes * (drawn < 0)
        return drawn


def _uniform(nodes: int, generator: np.random.Generator) -> Recipients:
    """Return uniformly random offsets, which lead to any other device; NewsCast approximates this rule."""
    return generator.integers(1, nodes, nodes)


def _ring(nodes: int, generator: np.random.Generator) -> Recipients:
    """Return random offsets to one of the two neighbours on the ring."""
    return 2 * generator.integers(0, 2, nodes) - 1


def _exponential(nodes: int, generator: np.random.Generator) -> Recipients:
    """Return random powers of two, 1, 2, 4, …, as offsets in the exponential graph (Assran et al. 2019)."""
    return 1 << generator.integers(0, (nodes - 1).bit_length(), nodes)


_RULES = {"uniform": _uniform, "full": _uniform, "ring": _ring, "exponential": _exponential}
PEERS = (*_RULES, "newscast")


def create_peers(name: str, nodes: int, drop: float, generator: np.random.Generator) -> Peers:
    """Return a topology's peer selection rule.

    Args:
        name: `uniform` or `full` for any other device, `ring`, `exponential`, or `newscast` for views of 30 entries.
        nodes: the number of devices.
        drop: the probability that a NewsCast message is lost.
        generator: generates peer selections and exchanges.

    Raises:
        UsageError: if the topology is unknown.
    """
    if name == "newscast" and nodes > 1:
        return Overlay(nodes, drop, generator)
    if name not in PEERS:
        raise UsageError(f"topology `{name}`: choose one of {', '.join(PEERS)}")
    return _Graph(nodes, _RULES.get(name, _uniform), generator)
