"""One agent under the virtual clock: the real learner, store and vault, and the core while it is up."""

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
    """One simulated agent.

    Attributes:
        id: node id.
        learner: the public half.
        store: the state that survives a crash; so does the vault's ledger.
        vault: the private half.
        peers: node ids it may send to, in turn.
        core: the state that a crash loses; None while the device is down.
        model: float64[P], the last model published; None before the first.
        cycle: cycles begun, as last published.
        life: raised by every crash, so that events of an earlier life are void.
        timers: when each timer is due, by name.
        honest: whether its learner is the one that ships.
        refused: node ids that its fleet has revoked, as far as it knows.
        disk: disk that can be full; None where there is always room.
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
        """Whether the device knows that it is revoked itself; then it never starts again."""
        return self.id in self.refused

    @property
    def company(self) -> tuple[str, ...]:
        """Peers to which it may send."""
        return tuple(peer for peer in self.peers if peer not in self.refused)
