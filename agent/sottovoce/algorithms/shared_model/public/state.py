"""State of a device that shares one model, including its durable part."""

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
        learner: learner name in queries to the vault.
        period: seconds between beats.
        turns: number of this device's turns; for `decisions` the maximum number, one per batch.
        asks: query of a turn: the noisy `gradient` sum of a batch at the global model, the noisy end of a `chain` of
            steps, or `decisions`, batch by batch, until one of them continues with the chain's end.
        batch: public batch size B, by which a gradient sum is divided.
        step_size: η of the first step, which is also the largest.
        law: rule for η_t. `constant`: η; `strongly-convex`: min(η, 1/(aγt)), where t counts this device's turns;
            `inverse-root`: η/√t, where t counts all devices' turns.
        slope: a of `strongly-convex`.
        regularisation: λ = γ; a gradient sum covers only the loss, and the term of λ is added on this device.
        radius: radius R of the ball onto which models are projected.
        order: rule for the next writer: `round`, the one after the last writer; `random`, uniformly by a public hash.
        patience: number of beats that a device waits for each writer before it, and for an answer.
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
        """Return η for this device's turn, from 0, that produces the model of a global step, from 1."""
        if self.law == "inverse-root":
            return self.step_size * inverse_square_root()(step)
        if self.law == "strongly-convex":
            return strongly_convex(self.slope, self.regularisation, 1 / (2 * self.step_size))(turn + 1)
        return constant(self.step_size)(turn + 1)


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """A model with its head.

    Attributes:
        head: step and writer of the model.
        parameters: float64[P], in float32 precision.
        simulated: whether a seeded release is part of the model.
    """

    head: Head
    parameters: Floats
    simulated: bool = False


class SharedModelState(Struct, frozen=True):
    """State of a device. Never modified in place; fields after `written` do not survive a restart.

    Attributes:
        model: the newest model that this device has and that others may know it to have.
        own: float64[P], the device's last release, which is w^L after it; the public initial model before the first.
        heard: newest head that the device knows of.
        told: newest head that the device has announced.
        cycle: number of beats begun.
        turn: slot of the next query to the vault.
        exhausted: whether the vault has permanently refused.
        forks: number of received heads that conflicted with another head of the same step.
        lost: number of updates known to be missing from all newer models.
        written: number of received heads by writer, for writers that are peers.
        waited: beats since the newest head was received; below 0 while a starting device only listens.
        source: device that announced the newest head.
        recent: writers of earlier heads, newest first.
        served: whether a device has fetched this device's own last model.
        wanting: device that this device has chosen to ask for a model; empty if there is none.
        wants: beats since that device was chosen.
        called: whether the request has been sent, not only planned.
        tries: number of holders asked for the newest head.
        resolved: whether the device need not fetch before its turn, because enough holders could not help.
        asked: id of the query that the vault is answering, if any.
        writes: step of the model that the answer produces.
        fresh: model produced by the answer, to be announced on the next beat.
        owed: peers to which the announced head has not yet been sent.
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
        """Return the traced part of the state as a JSON-serialisable dict; see State.traced."""
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
