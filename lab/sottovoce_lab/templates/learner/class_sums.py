"""Example of your own learner with its private half: one noisy sum of records per class, from which all classify.

Each device releases the sum once and sends it to each peer, which adds it to its own. A record's class is the one whose
sum it resembles most.
"""

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from sottovoce.plugin import (
    AgentConfig,
    Algorithm,
    Effect,
    Family,
    Floats,
    LearnerSettings,
    Machine,
    MachineState,
    Message,
    MessageRefused,
    PlainCodec,
    PlainStateCodec,
    Release,
    RowSumTerms,
    Send,
    build_kernel,
)


class ClassSumsSettings(LearnerSettings, frozen=True, tag="class-sums"):
    """Keys under `[learner]`: those of every learner. The tag is the learner's name."""


@dataclass(frozen=True, slots=True)
class ClassSum:
    """A device's released sums, float64[P]."""

    kind: ClassVar[str] = "class-sums-message/1"
    sums: np.ndarray
    simulated: bool = False

    @property
    def value_count(self) -> int:
        return self.sums.size

    def traced(self) -> dict[str, Any]:
        return {"sums": self.sums.tolist()}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassSumsState(MachineState):
    """The sums that a device knows, by the device that released them."""

    known: dict[str, np.ndarray] = field(default_factory=dict)
    simulated: bool = False


class ClassSums(Machine[ClassSumsState]):
    """The public half, which sees releases and messages, and no record."""

    def __init__(self, owner: str, size: int, name: str, period: float) -> None:
        super().__init__(ClassSumsState(), name=name, period=period, steps=1)
        self._owner, self._size = owner, size

    def on_cycle(self, state: ClassSumsState) -> tuple[ClassSumsState, list[Effect]]:
        state, asked = self.ask(state, "sums")
        if self._owner not in state.known:
            return state, asked
        state, peer = self.next_peer(state)
        own = ClassSum(state.known[self._owner], state.simulated)
        return state, [*asked, *([] if peer is None else [Send(peer, own)])]

    def on_release(self, state: ClassSumsState, release: Release) -> ClassSumsState:
        sums = release.value * release.step
        return replace(state, known={**state.known, self._owner: sums}, simulated=release.simulated)

    def on_message(self, state: ClassSumsState, sender: str, message: Message) -> ClassSumsState:
        if not isinstance(message, ClassSum) or message.sums.shape != (self._size,):
            raise MessageRefused("shape", "the sums do not fit: use the same [data] and [learner] on both devices")
        return replace(state, known={**state.known, sender: message.sums})

    def model(self, state: ClassSumsState) -> Floats:
        longest = float(np.linalg.norm(state.known.get(self._owner, 0.0)))  # no peer counts for more than this device
        lengths = {sender: float(np.linalg.norm(sums)) for sender, sums in state.known.items()}
        shares = [sums * min(1.0, longest / (lengths[sender] or 1.0)) for sender, sums in state.known.items()]
        total: Floats = np.sum([np.zeros(self._size), *shares], axis=0)
        return total / (longest or 1.0)


def build_parts(config: AgentConfig, public: object) -> Family:
    """Return the learner's parts for a configuration."""
    kernel, classes, learner = build_kernel(config), config.data.classes, config.learner

    def row(point: Floats, features: Floats, label: int) -> Floats:
        """Return what one record adds to the sums; this is the private half."""
        return np.outer(features, np.arange(classes) == label).ravel()

    def create(owner: str, provenance: object, stored: object) -> tuple[ClassSums, PlainStateCodec]:
        machine = ClassSums(owner, kernel.size, learner.name, learner.period)
        return machine, PlainStateCodec(machine.initial_state())

    terms = RowSumTerms(learner.name, "sums", size=kernel.size, clip=1.0, releases=1, row=row)
    return Family(kernel, None, terms, create)


ALGORITHM = Algorithm(
    settings=ClassSumsSettings,
    releases="one noisy sum of records per class",
    parts=build_parts,
    models=("softmax",),
    topology="full",
    one_member="shifts its peers' models as far as an honest device, in a direction of its choice",
    payloads={ClassSum.kind: lambda: PlainCodec(ClassSum)},
)
