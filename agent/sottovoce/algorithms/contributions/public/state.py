"""State of a device that mixes contributions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.algorithms.contributions.public.messages import Contribution

Held = Mapping[int, Contribution]
"""Contributions by the rank of the owner."""


@dataclass(frozen=True, slots=True)
class ContributionsState:
    """State of a device. Never changed in place; peers, pending and the peers' holdings do not outlive a restart.

    Attributes:
        numerator: int64[width], sum of its own releases in units of 2^-40, unrounded.
        held: contributions of other devices, and its own as last signed.
        kept: contributions of revoked devices at which gradients have been taken. They are not sent to any peer.
        fresh: ranks of contributions that arrived since the last query. Not kept over a restart.
        cycle: cycles begun.
        step: private steps finished; the slot of the next query.
        variation: sum of squared differences between its own releases; see Damping.add.
        turn: position in the peers at which the next cycle begins.
        exhausted: whether the vault has permanently refused.
        declined: contributions that differed too much from the one before. Not kept.
        simulated: whether a seeded release is part of the state.
        peers: node ids of possible recipients, in rotation.
        known: by peer, steps of the contributions that it holds, by rank, as it last reported or was sent since.
        listed: by peer, steps of the contributions held here when it was last sent a message, by rank.
        heard: peers that have sent a message to this device.
        pending: peers that have not confirmed the last message.
        asked: id of the query the vault is answering, if any.
        threshold: C_t that the vault was asked with, where it varies.
        recent: its own sum before each of its last steps. Not kept.
        last: float64[P], its last release, if its steps are damped. Not kept.
    """

    numerator: NDArray[np.int64]
    held: Held = field(default_factory=dict)
    kept: Held = field(default_factory=dict)
    fresh: frozenset[int] = frozenset()
    cycle: int = 0
    step: int = 0
    variation: float = 0.0
    turn: int = 0
    exhausted: bool = False
    declined: int = 0
    simulated: bool = False
    peers: tuple[str, ...] = ()
    known: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    listed: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    heard: frozenset[str] = frozenset()
    pending: frozenset[str] = frozenset()
    asked: bytes | None = None
    threshold: float | None = None
    recent: tuple[NDArray[np.int64], ...] = ()
    last: NDArray[np.float64] | None = None

    def traced(self) -> dict[str, Any]:
        """See State.traced; amounts are integers in units of 2^-40."""
        return {
            "numerator": self.numerator.tolist(),
            "held": {one.owner: one.steps for one in self.held.values()},
            "cycle": self.cycle,
            "step": self.step,
            "pending": sorted(self.pending),
        }
