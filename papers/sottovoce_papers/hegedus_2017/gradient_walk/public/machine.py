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
from sottovoce.plugin import (
    Effect,
    Machine,
    MachineState,
    Message,
    MessageRefused,
    Progress,
    Release,
    Send,
    SettlingState,
    descend,
    shape_refusal,
)

from sottovoce_papers.hegedus_2017.gradient_walk.public.messages import GradientWalkMessage

MAX_WALKS = 4
"""Maximum number of walks that a device holds at a time. A fleet has one walk, unless it is misconfigured."""

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
class GradientWalkState(MachineState):
    """The immutable state of a device, in which `releases` counts the visits so far.

    Attributes:
        parameters: float64[copies, d], the last model seen.
        age: t of that model.
        begun: whether this device has begun the walk that it is configured to begin.
        walks: the walks that the device holds, in order of arrival.
    """

    parameters: Parameters
    age: int = 0
    begun: bool = False
    walks: tuple[Walk, ...] = ()

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
            "step": self.releases,
            "pending": sorted(self.pending),
        }


Step = tuple[GradientWalkState, list[Effect]]


class GradientWalk(Machine[GradientWalkState]):
    """The state machine of a gradient walk, which stores only its schedule."""

    def __init__(self, schedule: GradientWalkSchedule) -> None:
        self.schedule = schedule
        initial = GradientWalkState(np.zeros((schedule.copies, schedule.features)))
        super().__init__(initial, name=schedule.learner, period=schedule.period, steps=schedule.visits)

    def without_state(self, releases: int) -> GradientWalkState:
        """Return the state after a loss: earlier visits still count, held walks are lost, and no new walk begins."""
        return replace(super().without_state(releases), begun=True)

    def progress(self, state: GradientWalkState) -> Progress:
        """Return the learner's progress; see Learner.progress."""
        details: dict[str, float | int | str] = {"model_age": state.age, "walks_held": len(state.walks)}
        return replace(super().progress(state), details=details)

    def belief(self, state: GradientWalkState) -> SettlingState | None:
        """Return the last model seen, or None while visits remain; see SettlingLearner.belief."""
        return SettlingState(self.model(state)) if self.is_done(state) else None

    def model(self, state: GradientWalkState) -> NDArray[np.float64]:
        """Return the last model seen, float64[copies · d]."""
        return state.parameters.ravel()

    def start(self, state: GradientWalkState, now: float) -> Step:
        """Start or resume after a restart, and return the next state with its effects."""
        if self.schedule.begins and not state.begun:
            walk = Walk(np.zeros_like(state.parameters), 0)
            state = replace(state, begun=True, walks=(*state.walks, walk))
        return super().start(state, now)

    def on_cycle(self, state: GradientWalkState) -> Step:
        """Send the first walk if this device has finished with it, then ask for a step of the next one."""
        state, sent = self._send(state)
        walk = next((walk for walk in state.walks if not walk.visited), None)
        if walk is None:
            return state, sent
        state, asked = self.ask(state, "gradient", walk.parameters.ravel())
        return state, [*sent, *asked]

    def on_release(self, state: GradientWalkState, release: Release) -> GradientWalkState:
        """Take the step of the first walk awaiting one; no other walk can have overtaken it."""
        index = next(position for position, walk in enumerate(state.walks) if not walk.visited)
        walk = take_step(state.walks[index], release)
        return replace(
            state,
            parameters=walk.parameters,
            age=walk.age,
            walks=(*state.walks[:index], walk, *state.walks[index + 1 :]),
        )

    def on_message(self, state: GradientWalkState, sender: str, message: Message) -> GradientWalkState:
        """Hold an arriving walk until the next cycles.

        Raises:
            MessageRefused: if it is invalid, or this device already holds too many walks.
        """
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

    def on_returned(self, state: GradientWalkState, recipient: str, message: Message) -> GradientWalkState:
        """Take back a permanently refused walk to send to another peer. It already includes this device's step."""
        if not isinstance(message, GradientWalkMessage):
            return state
        parameters = message.parameters.astype(np.float64).reshape(state.parameters.shape)
        walk = Walk(parameters, message.age, visited=True, simulated=message.simulated)
        return replace(state, walks=(walk, *state.walks))

    def _send(self, state: GradientWalkState) -> Step:
        if not state.walks or not (state.walks[0].visited or self.is_done(state)):
            return state, []
        state, recipient = self.next_peer(state)
        if recipient is None:
            return state, []
        walk = state.walks[0]
        parameters = walk.parameters.ravel().astype(np.float32)
        message = GradientWalkMessage(parameters, walk.age, walk.simulated)
        return replace(state, walks=state.walks[1:]), [Send(recipient, message)]


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
