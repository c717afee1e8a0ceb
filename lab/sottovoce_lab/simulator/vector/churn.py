"""Online times of devices: alternating sessions of log-normal length, as in PeerSim studies of gossip learning.

Ormándi, Hegedűs and Jelasity, "Gossip learning with linear models on fully distributed data" (2013): online sessions
have log-normal lengths; offline sessions follow the same law, stretched so that a given share of devices is online at
any moment; a device keeps its state while it is offline.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class LogNormal:
    """Law of the sessions.

    Attributes:
        online: share of devices online at any moment, above 0, at most 1; 1 means no churn.
        mu: mean of the logarithm of an online session's length in cycles.
        sigma: standard deviation of that logarithm, at least 0.
    """

    online: float = 1.0
    mu: float = 0.0
    sigma: float = 1.0

    @property
    def stretch(self) -> float:
        """Ratio of an average offline session to an average online one."""
        return 1 / self.online - 1


class Churn:
    """Online devices in each cycle. The process is stationary from the start.

    Args:
        nodes: number of devices.
        law: law of the devices' sessions.
        generator: generator of all randomness.
    """

    def __init__(self, nodes: int, law: LogNormal, generator: np.random.Generator) -> None:
        self._law = law
        self._generator = generator
        self._online = np.ones(nodes, dtype=np.bool_)
        if law.online < 1:
            self._online = generator.random(nodes) < law.online
            # A random moment is more likely to fall into a long session, of median exp(μ + σ²) instead of exp(μ), and
            # is equally likely to be anywhere in it.
            self._until = self._lengths(law.mu + law.sigma**2, self._online) * generator.random(nodes)

    def at(self, cycle: int) -> NDArray[np.bool_]:
        """Return the devices online at the beginning of a cycle, bool[nodes]. Request cycles in order, from 0."""
        if self._law.online < 1:
            while (over := np.flatnonzero(self._until <= cycle)).size:
                self._online[over] ^= True
                self._until[over] += self._lengths(self._law.mu, self._online[over])
        return self._online

    def _lengths(self, mu: float, online: NDArray[np.bool_]) -> NDArray[np.float64]:
        drawn = np.exp(mu + self._law.sigma * self._generator.standard_normal(len(online)))
        lengths: NDArray[np.float64] = drawn * np.where(online, 1.0, self._law.stretch)
        return lengths


def mean_session(law: LogNormal) -> float:
    """Return the mean length of an online session, in cycles."""
    return math.exp(law.mu + law.sigma**2 / 2)
