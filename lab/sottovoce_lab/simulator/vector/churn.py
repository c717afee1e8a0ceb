"""A churn model with online and offline sessions of log-normal length, as in PeerSim studies of gossip learning.

The model comes from Ormándi, Hegedűs and Jelasity, "Gossip learning with linear models on fully distributed data"
(2013). Online sessions have log-normal lengths. Offline sessions follow the same distribution, scaled so that a given
share of devices is online at any moment. A device keeps its state while it is offline.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class LogNormal:
    """The distribution of session lengths.

    Attributes:
        online: the share of devices online at any moment, above 0 and at most 1; 1 means no churn.
        mu: the mean log length of an online session, in cycles.
        sigma: the standard deviation of that log length, at least 0.
    """

    online: float = 1.0
    mu: float = 0.0
    sigma: float = 1.0

    @property
    def stretch(self) -> float:
        """The ratio of the average offline session length to the average online session length."""
        return 1 / self.online - 1


class Churn:
    """A process that determines which devices are online in each cycle; stationary from the start.

    Args:
        nodes: the number of devices.
        law: the distribution of session lengths.
        generator: generates the process.
    """

    def __init__(self, nodes: int, law: LogNormal, generator: np.random.Generator) -> None:
        self._law = law
        self._generator = generator
        self._online = np.ones(nodes, dtype=np.bool_)
        if law.online < 1:
            self._online = generator.random(nodes) < law.online
            # A random moment is more likely to be in a long session, so the median length of the current session is
            # exp(μ + σ²) rather than exp(μ). The moment is uniformly distributed within that session.
            self._until = self._lengths(law.mu + law.sigma**2, self._online) * generator.random(nodes)

    def advance_to(self, cycle: int) -> NDArray[np.bool_]:
        """Return which devices are online at the beginning of a cycle, bool[nodes].

        Cycles must be requested in increasing order, starting from 0.
        """
        if self._law.online < 1:
            while (ended := np.flatnonzero(self._until <= cycle)).size:
                self._online[ended] ^= True
                self._until[ended] += self._lengths(self._law.mu, self._online[ended])
        return self._online

    def _lengths(self, mu: float, online: NDArray[np.bool_]) -> NDArray[np.float64]:
        drawn = np.exp(mu + self._law.sigma * self._generator.standard_normal(len(online)))
        lengths: NDArray[np.float64] = drawn * np.where(online, 1.0, self._law.stretch)
        return lengths


def mean_session(law: LogNormal) -> float:
    """Return the mean online session length, in cycles."""
    return math.exp(law.mu + law.sigma**2 / 2)
