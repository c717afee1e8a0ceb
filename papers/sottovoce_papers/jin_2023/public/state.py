"""The schedule and state of a device that updates a shared model."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray
from sottovoce.plugin import constant, inverse_square_root, strongly_convex

from sottovoce_papers.jin_2023.public.messages import Head

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SharedModelSchedule:
    """The public schedule of a device, fixed before it starts.

    Attributes:
        learner: the learner name used in queries to the vault.
        period: the number of seconds between beats.
        turns: the number of this device's turns.
        asks: the query made on a turn: the noisy `gradient` sum over a batch at the global model, the noisy end of a
            `chain` of steps, or `decisions`: a decision on one batch, which either is a local step, or continues with
            a chain's end.
        batch: the public batch size B, by which a gradient sum is divided.
        step_size: η for the first step, which is also the largest.
        law: the rule for η_t. `constant`: η; `strongly-convex`: min(η, 1/(aγt)), where t counts this device's turns;
            `inverse-root`: η/√t, where t counts all devices' turns.
        slope: the constant a for `strongly-convex`.
        regularisation: λ = γ; a gradient sum covers only the loss, and this device adds the λ term.
        radius: the radius R of the ball onto which models are projected.
        order: how the next writer is chosen: `round`, the one after the last; `random`, uniformly by a public hash.
        patience: how many beats a device waits for each writer that precedes it, and for an answer.
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

    def learning_rate(self, turn: int, step: int) -> float:
        """Return the step size η_t.

        Args:
            turn: the number of turns that this device has taken before.
            step: the number of the model that the step produces, counting all devices' steps from 1.
        """
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
    """The immutable state of a device. Fields after `heads_by_writer` do not survive a restart.

    Attributes:
        model: the newest model that this device has, except for `unannounced_model`.
        own: float64[P], the device's last release, after which it equals w^L; before the first, the public initial
            model.
        newest_head: the newest head that the device knows of.
        announced_head: the newest head that the device has announced.
        cycle: the number of beats begun.
        turn: the slot of the next query to the vault.
        exhausted: whether the vault has refused permanently.
        forks: how many received heads conflicted with another head at the same step.
        lost_updates: how many updates are known to be missing from all newer models.
        heads_by_writer: the number of received heads per writer, for writers that are peers.
        beats_since_head: beats since the newest head was received; negative while a device only listens after startup.
        source: the device that announced the newest head.
        recent_writers: the writers of earlier heads, newest first.
        own_model_fetched: whether another device has fetched this device's own last model.
        fetch_from: the device that this device has chosen to ask for a model; empty if there is none.
        beats_since_choice: the number of beats since that choice.
        request_sent: whether the request has already been sent.
        fetch_attempts: how many holders have been asked for the newest head.
        may_skip_fetch: whether the device may take its turn without fetching, because enough holders could not help.
        pending_query: the id of the query that the vault is answering, if any.
        next_step: the step of the model that the answer produces.
        unannounced_model: the model produced by the answer, to be announced on the next beat.
        is_step_local: whether the answer was a local step, after which the model to announce is the newest, unchanged.
        peers_to_notify: the peers to which the announced head has not been sent yet.
        requests: the peers waiting for the model, in order.
        peers: the node ids of possible recipients.
        pending: the peers that have not confirmed the last message.
    """

    model: StoredModel
    own: Floats
    newest_head: Head
    announced_head: Head
    cycle: int = 0
    turn: int = 0
    exhausted: bool = False
    forks: int = 0
    lost_updates: int = 0
    heads_by_writer: Mapping[str, int] = {}
    beats_since_head: int = 0
    source: str = ""
    recent_writers: tuple[str, ...] = ()
    own_model_fetched: bool = False
    fetch_from: str = ""
    beats_since_choice: int = 0
    request_sent: bool = False
    fetch_attempts: int = 0
    may_skip_fetch: bool = False
    pending_query: bytes | None = None
    next_step: int = 0
    unannounced_model: StoredModel | None = None
    is_step_local: bool = False
    peers_to_notify: frozenset[str] = frozenset()
    requests: tuple[str, ...] = ()
    peers: tuple[str, ...] = ()
    pending: frozenset[str] = frozenset()

    def traced(self) -> dict[str, Any]:
        """Return the traced part of the state as a JSON-serialisable dict; see State.traced."""
        return {
            "parameters": self.model.parameters.tolist(),
            "own": self.own.tolist(),
            "head": {"step": self.model.head.step, "writer": self.model.head.writer},
            "heard": {"step": self.newest_head.step, "writer": self.newest_head.writer},
            "forks": self.forks,
            "lost_updates": self.lost_updates,
            "cycle": self.cycle,
            "step": self.turn,
            "pending": sorted(self.pending),
        }
