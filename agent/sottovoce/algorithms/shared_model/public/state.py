"""The state of a device that shares one model, including the durable part."""

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
    """The public schedule of a device, fixed before it starts.

    Attributes:
        learner: the learner name used in queries to the vault.
        period: the number of seconds between beats.
        turns: the number of this device's turns; with `decisions`, the maximum number, one per batch.
        asks: the query made on a turn: the noisy `gradient` sum over a batch at the global model, the noisy end of a
            `chain` of steps, or `decisions`, one batch after another, until one of them continues with a chain's end.
        batch: the public batch size B, by which a gradient sum is divided.
        step_size: η for the first step, which is also the largest.
        law: the rule for η_t. `constant`: η; `strongly-convex`: min(η, 1/(aγt)), where t counts this device's turns;
            `inverse-root`: η/√t, where t counts all devices' turns.
        slope: the constant a for `strongly-convex`.
        regularisation: λ = γ; a gradient sum covers only the loss, and this device adds the λ term.
        radius: the radius R of the ball onto which models are projected.
        order: how the next writer is chosen: `round`, the one after the last; `random`, uniformly by a public hash.
        patience: how many beats a device waits for each writer before it, and for an answer.
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
class StoredModel:
    """A model with its head.

    Attributes:
        head: the model's step and writer.
        parameters: float64[P], in float32 precision.
        simulated: whether the model includes a seeded release.
    """

    head: Head
    parameters: Floats
    simulated: bool = False


class SharedModelState(Struct, frozen=True):
    """The immutable state of a device. Fields after `written` do not survive a restart.

    Attributes:
        model: the newest model that this device has, which other devices may also know that it has.
        own: float64[P], the device's last release, after which it equals w^L; before the first, the public initial
            model.
        heard: the newest head that the device knows of.
        told: the newest head that the device has announced.
        cycle: the number of beats begun.
        turn: the slot of the next query to the vault.
        exhausted: whether the vault has refused permanently.
        forks: how many received heads conflicted with another head at the same step.
        lost: how many updates are known to be missing from all newer models.
        written: the number of received heads per writer, for writers that are peers.
        waited: beats since the newest head was received; negative while a device only listens after startup.
        source: the device that announced the newest head.
        recent: the writers of earlier heads, newest first.
        served: whether a device has fetched this device's own last model.
        wanting: the device that this device has chosen to ask for a model; empty if there is none.
        wants: the number of beats since that choice.
        called: whether the request has already been sent.
        tries: how many holders have been asked for the newest head.
        resolved: whether the device need not fetch before its turn, because enough holders could not help.
        asked: the id of the query that the vault is answering, if any.
        writes: the step of the model that the answer produces.
        fresh: the model produced by the answer, to be announced on the next beat.
        owed: the peers to which the announced head has not been sent yet.
        requests: the peers waiting for the model, in order.
        peers: the node ids of possible recipients.
        pending: the peers that have not confirmed the last message.
    """

    model: StoredModel
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
    fresh: StoredModel | None = None
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
