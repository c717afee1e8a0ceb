"""A simulated device: a real agent's learner, store and vault, and its core while the agent is running."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sottovoce.agent.core import Core
from sottovoce.agent.links import Store
from sottovoce.learners import Learner
from sottovoce.vault import Vault

from sottovoce_lab.simulator.disk import Disk


@dataclass(slots=True)
class Device:
    """An agent in a simulation.

    Attributes:
        id: node id.
        learner: the agent's public half.
        store: storage of the state that survives a crash; the vault's ledger survives too.
        vault: the agent's private half.
        peers: node ids of the peers, in the order in which the agent sends to them.
        core: the running core, whose state is lost in a crash; None while the device is down.
        model: float64[P], the most recently published model; None before the first.
        cycle: number of cycles begun at the time of the most recent publication.
        life: counter that each crash increments; events scheduled before the crash are then ignored.
        timers: due time of each pending timer, by timer name.
        honest: False if the agent is dishonest; see simulator.dishonest.
        refused: revoked node ids of which the agent has been notified.
        disk: simulated disk that can become full; None if the disk never becomes full.
    """

    id: str
    learner: Learner[Any]
    store: Store
    vault: Vault
    peers: tuple[str, ...] = ()
    core: Core | None = None
    model: NDArray[np.float64] | None = None
    cycle: int = 0
    life: int = 0
    timers: dict[str, float] = field(default_factory=dict)
    honest: bool = True
    refused: set[str] = field(default_factory=set)
    disk: Disk | None = None

    @property
    def barred(self) -> bool:
        """Whether the device has been notified of its own revocation, after which it never restarts."""
        return self.id in self.refused

    @property
    def permitted_peers(self) -> tuple[str, ...]:
        """The peers that are not revoked as far as the device knows, and to which it may therefore send."""
        return tuple(peer for peer in self.peers if peer not in self.refused)
