"""A simulated device, with a real agent's learner, store and vault, and its core while the agent is running."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sottovoce.learning.learners import Learner
from sottovoce.node.core import Core
from sottovoce.node.links import Store
from sottovoce.privacy.vault import Vault

from sottovoce_lab.simulator.disk import Disk


@dataclass(slots=True)
class Device:
    """An agent in a simulation.

    Attributes:
        id: the node id.
        learner: the agent's public half.
        store: stores the state that survives a crash; the vault's ledger survives as well.
        vault: the agent's private half.
        peers: the node ids of the peers, in the order in which the agent sends to them.
        core: the running core, whose state a crash destroys; None while the device is down.
        model: float64[P], the most recently published model; None before the first.
        cycle: the number of cycles begun at the most recent publication.
        incarnation: a counter that each crash increments; events scheduled before the crash are then ignored.
        timers: when each pending timer is due, by timer name.
        is_honest: whether the agent is honest; see simulator.dishonest.
        revoked_ids: the revoked node ids that the agent knows of.
        disk: a simulated disk that can become full; None if the disk never becomes full.
    """

    id: str
    learner: Learner[Any]
    store: Store
    vault: Vault
    peers: tuple[str, ...] = ()
    core: Core | None = None
    model: NDArray[np.float64] | None = None
    cycle: int = 0
    incarnation: int = 0
    timers: dict[str, float] = field(default_factory=dict)
    is_honest: bool = True
    revoked_ids: set[str] = field(default_factory=set)
    disk: Disk | None = None

    @property
    def is_revoked(self) -> bool:
        """Whether the device knows of its own revocation, after which it never restarts."""
        return self.id in self.revoked_ids

    @property
    def permitted_peers(self) -> tuple[str, ...]:
        """The peers that the device may send to: all except those that it knows are revoked."""
        return tuple(peer for peer in self.peers if peer not in self.revoked_ids)
