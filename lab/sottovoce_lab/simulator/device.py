"""Agent under the virtual clock: the real learner, store and vault, and the core while the agent is up."""

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
    """Simulated agent.

    Attributes:
        id: node id.
        learner: public half of the agent.
        store: the state that survives a crash; so does the vault's ledger.
        vault: private half of the agent.
        peers: node ids that the agent may send to, in turn.
        core: the state that a crash loses; None while the device is down.
        model: float64[P], the last model published; None before the first.
        cycle: number of cycles begun, as last published.
        life: number that every crash raises, so that events of an earlier life are void.
        timers: due time of each timer, by name.
        honest: whether the agent's learner is the shipped learner.
        refused: node ids that the fleet has revoked, as far as the agent has been notified.
        disk: disk that can be full; None if it always has room.
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
        """Whether the device has been notified of its own revocation; such a device never starts again."""
        return self.id in self.refused

    @property
    def permitted_peers(self) -> tuple[str, ...]:
        """Peers to which the device may send."""
        return tuple(peer for peer in self.peers if peer not in self.refused)
