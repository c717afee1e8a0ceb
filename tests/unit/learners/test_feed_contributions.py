"""Contributions from a live feed: a fleet learns day after day, and one liar cannot ruin it as it can ruin pairs."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sottovoce.algorithms.contributions.codec import ContributionsCodec
from sottovoce.algorithms.contributions.public.acceptance import StepBound
from sottovoce.algorithms.contributions.public.machine import Mixer
from sottovoce.algorithms.pairwise.public.machine import Pairwise
from sottovoce.algorithms.steps.public.descent import Schedule
from sottovoce.data import Records
from sottovoce.learning.learners import (
    Ask,
    Delivered,
    Effect,
    Event,
    Learner,
    PeersChanged,
    PublishModel,
    Received,
    Reply,
    Send,
)
from sottovoce_lab.simulator.dishonest import dishonest_learner

from tests.unit.learners.support import TICK, FakeRelease, Stamp

pytestmark = pytest.mark.slow

DEVICES, DAYS, STEPS, SHAPE = 8, 24, 16, (12, 5)
SIZE, RATE, NOISE = 60, 0.5, 0.4
TARGET = np.ones(SIZE) / np.sqrt(SIZE)
SCHEDULE = Schedule("clipd2p", SIZE, 1.0, STEPS, RATE, 0.0, 1.0, DEVICES - 1, follows=True, longest=RATE / STEPS)
NOTHING = Records(np.zeros((1, 1)), np.zeros(1, dtype=np.int64))


class Fleet:
    """Devices that exchange messages at once, with vaults whose gradients lead to TARGET, plus noise.

    Args:
        mixing: `contributions` or `pairwise`.
        lie: what the last device does.
        seed: of the noise.
    """

    def __init__(self, mixing: str, lie: str, seed: int) -> None:
        self.random, self.lie, self.declined = np.random.default_rng(seed), lie, 0
        self.learners: dict[str, Learner[Any]] = {}
        for name in (f"d{i}" for i in range(DEVICES)):
            self.learners[name] = self._learner(mixing, name)
        self.liar = name
        if lie not in ("", "flip", "tenfold"):
            self.learners[name] = dishonest_learner(self.learners[name], lie, None, NOTHING, 2)
        self.states = {name: learner.initial_state() for name, learner in self.learners.items()}
        for name in self.learners:
            peers = () if lie == "silent" and name == self.liar else tuple(sorted(self.learners.keys() - {name}))
            self.apply(name, PeersChanged(peers))
        self.models: dict[str, NDArray[np.float64]] = {}

    @staticmethod
    def _learner(mixing: str, name: str) -> Learner[Any]:
        longest = RATE + RATE / STEPS * NOISE * np.sqrt(SIZE)
        if mixing == "pairwise":
            return Pairwise(SCHEDULE, np.zeros(SIZE), reach=longest, max_steps=STEPS + DAYS)
        bound = StepBound(signal=STEPS, noise=NOISE)
        return Mixer(
            SCHEDULE, np.zeros(SIZE), owner=name, provenance=Stamp(), capacity=64, max_steps=STEPS + DAYS,
            dishonest=0.0, bound=bound, shapes=(SHAPE,),
        )  # fmt: skip

    def apply(self, name: str, event: Event) -> None:
        self.states[name], effects = self.learners[name].on(self.states[name], event, 0.0)
        self.handle(name, effects)

    def handle(self, name: str, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(recipient, message):
                    self.states[recipient], replies = self.learners[recipient].on(
                        self.states[recipient], Received(name, message), 0.0
                    )
                    reply = next((reply.message for reply in replies if isinstance(reply, Reply)), None)
                    self.apply(name, Delivered(recipient, reply))
                case Ask(query):
                    units = min(self.day, STEPS)
                    total = (query.point - TARGET) * units + NOISE * self.random.normal(size=SIZE)
                    total *= {"flip": -1, "tenfold": -10}.get(self.lie, 1) if name == self.liar else 1
                    value = np.rint(total * 2.0**40).clip(-(2.0**60), 2.0**60).astype(np.int64)
                    self.apply(name, FakeRelease(query.id, value, units=units))
                case PublishModel(model):
                    self.models[name] = model

    def live(self) -> float:
        """Live for DAYS days of two beats, and return the largest error of an honest device's model."""
        for self.day in range(1, DAYS + 1):
            for name, learner in self.learners.items():
                self.states[name], _ = learner.on_window_ended(self.states[name], self.day, 0.0)  # type: ignore[attr-defined]
            for _ in range(2):
                for name in self.learners:
                    self.apply(name, TICK)
        return max(float(np.linalg.norm(self.models[name] - TARGET)) for name in self.learners if name != self.liar)


def test_a_fleet_learns_from_each_day_and_declines_no_honest_contribution() -> None:
    fleet = Fleet("contributions", "", 1)
    assert fleet.live() < 0.5
    state, learner = fleet.states["d0"], fleet.learners["d0"]
    assert DAYS // 2 < state.step <= STEPS // 2 + DAYS, "half of the steps at once, then one a day"
    assert {contribution.steps for contribution in state.held.values()} == {state.step}
    facts = learner.progress(state)
    assert facts.details["contributions_declined"] == 0
    assert facts.details["last_window"] == DAYS
    assert facts.steps is None
    codec = ContributionsCodec(learner)  # type: ignore[arg-type]
    decoded = codec.decode(codec.encode(replace(state, held={})))
    assert decoded.last_used_window == DAYS


@pytest.mark.parametrize("lie", ["flip", "tenfold", "opposite", "close", "little", "late"])
def test_one_liar_does_not_ruin_a_feed_s_fleet(lie: str) -> None:
    assert Fleet("contributions", lie, 2).live() < Fleet("contributions", "silent", 2).live() + 0.25


def test_the_same_liar_ruins_pairs() -> None:
    assert Fleet("pairwise", "opposite", 2).live() > Fleet("contributions", "opposite", 2).live() + 0.5


def test_a_device_that_lost_its_state_repeats_its_releases_at_once() -> None:
    """Otherwise it would take as many days as before to catch up with the contribution that others hold."""
    fleet = Fleet("contributions", "", 3)
    fleet.live()
    lost = fleet.states["d0"]
    fleet.states["d0"] = replace(fleet.learners["d0"].without_state(lost.step), peers=lost.peers)
    for _ in range(lost.step + 2):
        fleet.apply("d0", TICK)
    assert fleet.states["d0"].step >= lost.step
