"""State of a device that shares one model, its durable part included."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from sottovoce.algorithms.shared_model.public.messages import Head
from sottovoce.kernels.decentralised.chain_steps import constant, inverse_square_root, strongly_convex

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SharedModelSchedule:
    """Public schedule of a device, fixed before it starts.

    Attributes:
        learner: the name under which it asks the vault.
        period: seconds from beat to beat.
        turns: number of this device's turns; for `decisions` the largest possible number, one per batch.
        asks: the question of a turn: the noisy `gradient` sum of a batch at the global model, the noisy end of a
            `chain` of steps, or `decisions`, batch by batch, until one is to continue with the chain's end.
        batch: B, public, by which a gradient sum is divided.
        step_size: η of the first step, and the largest.
        law: law of η_t: `constant`; `strongly-convex`: min(η, 1/(aγt)), t counting this device's turns; `inverse-root`:
            η/√t, t counting all devices' turns.
        slope: a of `strongly-convex`.
        regularisation: λ = γ; a gradient sum is of the loss alone, and the term of λ is added here.
        radius: R, onto whose ball models are projected.
        order: the next writer: `round`: the one after the last writer; `random`: uniformly, by a public hash.
        patience: beats that a device waits for the writers before it, and for an answer.
        begins: whether this device takes the first turn.
    """

    learner: str
    period: float
    turns: int
    asks: Literal["gradient", "chain", "decisions"]
    batch: int
    step_size: float
    law: Literal["constant", "strongly-convex", "inverse-root"] = "constant"
    slope: float = 0.5
    regularisation: float = 0.0
    radius: float = 2.0**12
    order: Literal["round", "random"] = "round"
    patience: float = 3.0
    begins: bool = False

    def rate(self, turn: int, step: int) -> float:
        """Return η of this device's turn, from 0, that makes the model of a global step, from 1."""
        if self.law == "inverse-root":
            return self.step_size * inverse_square_root()(step)
        if self.law == "strongly-convex":
            return strongly_convex(self.slope, self.regularisation, 1 / (2 * self.step_size))(turn + 1)
        return constant(self.step_size)(turn + 1)


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """A model with its head.

    Attributes:
        head: its step and writer.
        parameters: float64[P], in float32 precision.
        simulated: whether a seeded release is part of it.
    """

    head: Head
    parameters: Floats
    simulated: bool = False


class SharedModelState(Struct, frozen=True):
    """State of a device. Never changed in place; fields after `written` do not outlive a restart.

    Attributes:
        model: the newest that it has and that others may know it to have.
        own: float64[P], its last release, w^L after it; the public start before the first.
        heard: newest head that it knows of.
        told: newest head that it has announced.
        cycle: beats begun.
        turn: the slot of the next question to the vault.
        exhausted: whether the vault has permanently refused.
        forks: heads heard of that conflicted with another head of the same step.
        lost: updates known to be in no newer model.
        written: heads heard of, by those of their writers that are peers.
        waited: beats since the newest head was heard of; below 0 while a device that starts only listens.
        source: device that announced the newest head.
        recent: writers of earlier heads, the newest first.
        served: whether a device has fetched this device's own last model.
        wanting: the device that it has asked for a model, if any.
        wants: beats since it chose that device.
        called: whether the request has been sent, not only planned.
        tries: number of holders that it has asked for this head.
        resolved: it need not fetch before its turn: it has the newest model, or no one has answered.
        asked: id of the query the vault is answering, if any.
        writes: the step that the answer makes.
        fresh: the model that the answer made, to be announced on the next beat.
        owed: peers to which the announced head has yet to be sent.
        requests: peers that wait for the model, in order.
        peers: node ids of possible recipients.
        pending: peers that have not confirmed the last message.
    """

    model: Held
    own: Floats
    heard: Head
    told: Head
    cycle: int = 0
    turn: int = 0
    exhausted: bool = False
    forks: int = 0
    lost: int = 0
    written: Mapping[str, int] = {}
    waited: int = 0
    source: str = ""
    recent: tuple[str, ...] = ()
    served: bool = False
    wanting: str = ""
    wants: int = 0
    called: bool = False
    tries: int = 0
    resolved: bool = False
    asked: bytes | None = None
    writes: int = 0
    fresh: Held | None = None
    owed: frozenset[str] = frozenset()
    requests: tuple[str, ...] = ()
    peers: tuple[str, ...] = ()
    pending: frozenset[str] = frozenset()

    def traced(self) -> dict[str, Any]:
        """See State.traced."""
        return {
            "parameters": self.model.parameters.tolist(),
            "own": self.own.tolist(),
            "head": {"step": self.model.head.step, "writer": self.model.head.writer},
            "heard": {"step": self.heard.step, "writer": self.heard.writer},
            "forks": self.forks,
            "lost_updates": self.lost,
            "cycle": self.cycle,
            "step": self.turn,
            "pending": sorted(self.pending),
        }
