"""Base class of free-form learners: a refusal that passes, and one that lasts."""

import numpy as np
import pytest
from numpy.typing import NDArray
from sottovoce.learning.learners import Ask, Effect, Message, Timer
from sottovoce.learning.learners.machine import Machine, MachineState
from sottovoce.privacy.api import Refused, Release

TICK = Timer("cycle")


class Asker(Machine[MachineState]):
    """A learner that asks the vault in each cycle."""

    def on_cycle(self, state: MachineState) -> tuple[MachineState, list[Effect]]:
        return self.ask(state, "sum")

    def on_message(self, state: MachineState, sender: str, message: Message) -> MachineState:
        return state

    def on_release(self, state: MachineState, release: Release) -> MachineState:
        return state

    def model(self, state: MachineState) -> NDArray[np.float64]:
        return np.zeros(1)


class Deaf(Machine[MachineState]):
    """A learner without the methods for messages and releases."""

    on_cycle, model = Asker.on_cycle, Asker.model


def test_a_learner_without_a_method_cannot_be_created() -> None:
    with pytest.raises(TypeError, match="on_release"):
        Deaf(MachineState(), name="deaf", period=1.0, steps=1)  # type: ignore[abstract]


def asked(effects: list[Effect]) -> list[Ask]:
    return [effect for effect in effects if isinstance(effect, Ask)]


@pytest.mark.parametrize("reason, asks_again", [("calendar", True), ("budget", False), ("query", False)])
def test_a_query_is_repeated_if_only_a_window_has_to_end(reason: str, asks_again: bool) -> None:
    learner = Asker(MachineState(), name="asker", period=1.0, steps=3)
    state, effects = learner.on(learner.initial_state(), TICK, 0.0)
    (first,) = asked(effects)
    state, _ = learner.on(state, Refused(first.query.id, reason, "no"), 0.5)
    state, effects = learner.on(state, TICK, 1.0)
    assert [ask.query.id for ask in asked(effects)] == ([first.query.id] if asks_again else [])
    assert learner.progress(state).exhausted is not asks_again


def test_a_refusal_of_another_query_changes_nothing() -> None:
    learner = Asker(MachineState(), name="asker", period=1.0, steps=3)
    state, _ = learner.on(learner.initial_state(), TICK, 0.0)
    assert learner.on(state, Refused(b"another", "budget", "no"), 0.5) == (state, [])
