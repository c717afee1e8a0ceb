"""The walk of a model that takes one noisy gradient step per device: Hegedűs & Jelasity 2017, gradient perturbation.

A device that holds the model (w, t) asks its vault for the noisy loss gradient at w, summed over its n records. It
divides the sum by n, which is public, to obtain the mean g, and takes the step t ← t + 1, w ← w - (λw + g)/(λt). Then
it sends the model on. A device that has used up its visits passes models on unchanged. Visits and their ε follow a
public schedule, so neither reveals anything about the records.

A device queries its vault on one beat of its own clock and sends the model on a later beat, never at the moment its
vault finishes. The send time therefore does not reveal how long the vault worked on the records, with one exception: a
vault that takes longer than a period misses whole beats, which is visible. Choose a period that leaves the vault enough
time to answer.

Once sent, a model belongs to its recipient. The link delivers it exactly once, however long that takes. If the
recipient is down, the walk waits for it; sending a second copy to another device would split one walk into two.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.algorithms.gradient_walk.public.messages import GradientWalkMessage
from sottovoce.errors import MessageRefused
from sottovoce.kernels.gossip_rules import descend
from sottovoce.learning.learners.learner import (
    Ask,
    Delivered,
    Effect,
    Event,
    Message,
    PeersChanged,
    Progress,
    PublishModel,
    Received,
    Returned,
    Send,
    SetTimer,
    SettlingState,
    Timer,
    free_peer_indices,
    shape_refusal,
)
from sottovoce.privacy.api import Answer, Query, Refused, Release

MAX_WALKS = 4
"""Maximum number of walks that a device holds at a time. A fleet has one walk, unless it is misconfigured."""

_CYCLE = "cycle"
_LARGEST_AGE = 2**53
_LARGEST_PARAMETER = 1e15

Parameters = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class GradientWalkSchedule:
    """The public schedule of a device, fixed before it starts.

    Attributes:
        learner: the learner name used in queries to the vault.
        copies: the number of one-vs-all models.
        features: the number of features d in transformed records.
        period: the number of seconds between cycles.
        visits: how many visits to this device include a step.
        begins: whether this device begins the walk; set on exactly one device in the fleet.
    """

    learner: str
    copies: int
    features: int
    period: float
    visits: int
    begins: bool


@dataclass(frozen=True, slots=True)
class Walk:
    """A model that this device holds until it sends it on.

    Attributes:
        parameters: float64[copies, d], w.
        age: t, the number of steps in the model's history.
        visited: whether this device has already taken its step.
        simulated: whether the model includes a seeded release.
    """

    parameters: Parameters
    age: int
    visited: bool = False
    simulated: bool = False


@dataclass(frozen=True, slots=True)
class GradientWalkState:
    """The immutable state of a device. Peers, pending messages and the pending query do not survive a restart.

    Attributes:
        parameters: float64[copies, d], the last model seen.
        age: t of that model.
        cycle: the number of cycles begun.
        turn: the index in `peers` at which the next cycle begins.
        visits: the number of visits so far, which is also the slot of the next query.
        exhausted: whether the vault has refused permanently.
        begun: whether this device has begun the walk that it is configured to begin.
        walks: the walks that the device holds, in order of arrival.
        peers: the node ids of possible recipients.
        pending: the peers that have not confirmed the last message.
        pending_query: the id of the query that the vault is answering, if any.
    """

    parameters: Parameters
    age: int = 0
    cycle: int = 0
    turn: int = 0
    visits: int = 0
    exhausted: bool = False
    begun: bool = False
    walks: tuple[Walk, ...] = ()
    peers: tuple[str, ...] = ()
    pending: frozenset[str] = frozenset()
    pending_query: bytes | None = None

    def traced(self) -> dict[str, Any]:
        """Return the traced part of the state as a JSON-serialisable dict; see State.traced."""
        return {
            "parameters": self.parameters.ravel().tolist(),
            "age": self.age,
            "walks": [
                {"parameters": walk.parameters.ravel().tolist(), "age": walk.age, "visited": walk.visited}
                for walk in self.walks
            ],
            "cycle": self.cycle,
            "step": self.visits,
            "pending": sorted(self.pending),
        }


Step = tuple[GradientWalkState, list[Effect]]


class GradientWalk:
    """The state machine of a gradient walk, which stores only its schedule."""

    def __init__(self, schedule: GradientWalkSchedule) -> None:
        self.schedule = schedule

    def initial_state(self) -> GradientWalkState:
        """Return the initial state of a device that joins, with a zero model as the last one seen and no walks."""
        return GradientWalkState(np.zeros((self.schedule.copies, self.schedule.features)))

    def without_state(self, releases: int) -> GradientWalkState:
        """Return the state after a loss: earlier visits still count, held walks are lost, and no new walk begins."""
        return replace(self.initial_state(), visits=releases, begun=True)

    def restore(self, state: GradientWalkState, pending: frozenset[str]) -> GradientWalkState:
        """Return a saved state with the given pending peers; see Learner.restore."""
        return replace(state, pending=pending)

    def progress(self, state: GradientWalkState) -> Progress:
        """Return the learner's progress; see Learner.progress."""
        return Progress(
            phase="mixing" if self._is_spent(state) else "learning",
            steps_done=state.visits,
            steps=self.schedule.visits,
            exhausted=state.exhausted,
            details={"model_age": state.age, "walks_held": len(state.walks)},
        )

    def belief(self, state: GradientWalkState) -> SettlingState | None:
        """Return the last model seen, or None while visits remain; see SettlingLearner.belief."""
        return SettlingState(state.parameters.ravel()) if self._is_spent(state) else None

    def start(self, state: GradientWalkState, now: float) -> Step:
        """Start or resume after a restart, and return the next state with its effects."""
        state = replace(state, pending_query=None)
        if self.schedule.begins and not state.begun:
            walk = Walk(np.zeros_like(state.parameters), 0)
            state = replace(state, begun=True, walks=(*state.walks, walk))
        return state, [SetTimer(_CYCLE, now), PublishModel(state.parameters.ravel(), state.cycle)]

    def on(self, state: GradientWalkState, event: Event, now: float) -> Step:
        """Handle an event, and return the next state with its effects.

        Raises:
            MessageRefused: if a received message is invalid or this device already holds too many walks; the state is
                left unchanged.
        """
        match event:
            case Timer():
                return self._tick(state, now)
            case Received(_, message):
                return self._receive(state, message), []
            case Delivered(recipient):
                return replace(state, pending=state.pending - {recipient}), []
            case Returned(recipient, message):
                return self._take_back(replace(state, pending=state.pending - {recipient}), message), []
            case PeersChanged(peers):
                return replace(state, peers=peers), []
            case _:
                return self._handle_answer(state, event), []

    def _is_spent(self, state: GradientWalkState) -> bool:
        return state.exhausted or state.visits >= self.schedule.visits

    def _tick(self, state: GradientWalkState, now: float) -> Step:
        state, effects = self._send(state)
        state, asks = self._ask(state)
        state = replace(state, cycle=state.cycle + 1)
        published = PublishModel(state.parameters.ravel(), state.cycle)
        return state, [*effects, *asks, SetTimer(_CYCLE, now + self.schedule.period), published]

    def _send(self, state: GradientWalkState) -> Step:
        """Send the first walk to the next free peer, if this device has finished with it."""
        if not state.walks or not (state.walks[0].visited or self._is_spent(state)):
            return state, []
        index = next(free_peer_indices(state.peers, state.turn, state.pending), None)
        if index is None:
            return state, []
        recipient = state.peers[index]
        walk = state.walks[0]
        state = replace(
            state,
            walks=state.walks[1:],
            turn=(index + 1) % len(state.peers),
            pending=state.pending | {recipient},
        )
        parameters = walk.parameters.ravel().astype(np.float32)
        return state, [Send(recipient, GradientWalkMessage(parameters, walk.age, walk.simulated))]

    def _ask(self, state: GradientWalkState) -> Step:
        """Ask for the gradient at the first walk awaiting a step, one query at a time so that a slot keeps its walk."""
        walk = next((walk for walk in state.walks if not walk.visited), None)
        if walk is None or state.pending_query is not None or self._is_spent(state):
            return state, []
        query = Query(self.schedule.learner, "gradient", state.visits, walk.parameters.ravel())
        return replace(state, pending_query=query.id), [Ask(query)]

    def _handle_answer(self, state: GradientWalkState, answer: Answer) -> GradientWalkState:
        """Take the step if this is the awaited answer, and ignore any other answer."""
        if answer.query_id != state.pending_query:
            return state
        state = replace(state, pending_query=None)
        if isinstance(answer, Refused):
            return replace(state, exhausted=True)
        index = next(position for position, walk in enumerate(state.walks) if not walk.visited)
        walk = take_step(state.walks[index], answer)
        return replace(
            state,
            parameters=walk.parameters,
            age=walk.age,
            visits=state.visits + 1,
            walks=(*state.walks[:index], walk, *state.walks[index + 1 :]),
        )

    def _receive(self, state: GradientWalkState, message: Message) -> GradientWalkState:
        if not isinstance(message, GradientWalkMessage):
            raise MessageRefused(
                "learner", "the message is not for a gradient-walk learner: use the same learner.name on both devices"
            )
        if message.parameters.size != state.parameters.size:
            raise shape_refusal(
                f"a model with {message.parameters.size} parameters does not fit one with {state.parameters.size}"
            )
        if not 0 <= message.age <= _LARGEST_AGE or not (np.abs(message.parameters) <= _LARGEST_PARAMETER).all():
            raise MessageRefused("range", "a model's age or size is out of range, so its sender fabricated it")
        if len(state.walks) >= MAX_WALKS:
            raise MessageRefused(
                "walks",
                f"this device already holds {MAX_WALKS} walks and accepts another only after it has sent one on: set "
                "learner.begins_walk on only one device of the fleet",
            )
        parameters = message.parameters.astype(np.float64).reshape(state.parameters.shape)
        walk = Walk(parameters, message.age, simulated=message.simulated)
        return replace(state, parameters=parameters, age=walk.age, walks=(*state.walks, walk))

    def _take_back(self, state: GradientWalkState, message: Message) -> GradientWalkState:
        """Take back a permanently refused walk to send to another peer. It already includes this device's step."""
        if not isinstance(message, GradientWalkMessage):
            return state
        parameters = message.parameters.astype(np.float64).reshape(state.parameters.shape)
        walk = Walk(parameters, message.age, visited=True, simulated=message.simulated)
        return replace(state, walks=(walk, *state.walks))


def take_step(walk: Walk, release: Release) -> Walk:
    """Return the walk after a step against the noisy mean gradient, which is post-processing of a release.

    Args:
        walk: the walk before the step.
        release: has the value int64[copies · d + 1], the gradient sum on its grid followed by n.
    """
    total, count = release.value[:-1], int(release.value[-1])
    mean = (total * -(release.step / count)).reshape(walk.parameters.shape)
    parameters, age = descend(walk.parameters[np.newaxis], np.array([walk.age]), mean[np.newaxis])
    bounded = np.clip(parameters[0], -_LARGEST_PARAMETER, _LARGEST_PARAMETER)
    return Walk(bounded, int(age[0]), visited=True, simulated=walk.simulated or release.simulated)
