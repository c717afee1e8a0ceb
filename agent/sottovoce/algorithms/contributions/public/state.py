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
    """State of a device. Never changed in place; peers, pending and the peers' holdings are not kept.

    Attributes:
        numerator: int64[width], its own sum in units of 2^-40, unrounded.
        held: the contributions of others, and its own as it was last signed.
        kept: those of revoked devices that gradients have been taken around. They are sent to no one.
        fresh: ranks of those that came since it last asked for a gradient. Not kept over a restart.
        cycle: cycles begun.
        step: private steps finished; the slot of the next query.
        turn: where in the peers the next cycle begins.
        exhausted: the vault has permanently refused.
        declined: contributions that differed too much from the one before. Not kept.
        simulated: a seeded release is part of it.
        peers: node ids it may send to, in rotation.
        known: by peer, steps of the contributions that it holds, by rank, as it last reported or was sent since.
        listed: by peer, steps of the contributions held here when it was last sent a message, by rank.
        heard: peers that have sent a message to this device.
        pending: peers that have not confirmed the last message.
        asked: id of the query the vault is answering, if any.
        threshold: C_t that the vault was asked with, where it varies.
        recent: its own sum before each of its last steps. Not kept.
    """

    numerator: NDArray[np.int64]
    held: Held = field(default_factory=dict)
    kept: Held = field(default_factory=dict)
    fresh: frozenset[int] = frozenset()
    cycle: int = 0
    step: int = 0
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

    def traced(self) -> dict[str, Any]:
        """See State.traced; amounts are integers in units of 2^-40."""
        return {
            "numerator": self.numerator.tolist(),
            "held": {one.owner: one.steps for one in self.held.values()},
            "cycle": self.cycle,
            "step": self.step,
            "pending": sorted(self.pending),
        }
