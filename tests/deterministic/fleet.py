"""Fleets of real cores, learners and vaults, with stores that can fail, and an account of all their mass."""

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from sottovoce.algorithms.push_sum.public.machine import WEIGHT_ONE, PushSum, PushSumState
from sottovoce.algorithms.push_sum.public.messages import PushSumShare
from sottovoce.algorithms.steps.public.descent import Schedule, contribution
from sottovoce.data import Records
from sottovoce.kernels.softmax import Softmax
from sottovoce.node.links import NewestMessage, Outgoing, SavedState
from sottovoce.privacy.api import Answer, Query, Refused, Release
from sottovoce.privacy.terms import build
from sottovoce.privacy.terms.gradients import GradientTerms
from sottovoce.privacy.vault import Budget, Ledger, SeededNoise, Vault
from sottovoce_lab.simulator import Device, out_peers
from sottovoce_lab.simulator.wrapped_vault import WrappedVault
from sottovoce_lab.testbed.memory_store import MemoryStore

KERNEL = Softmax(2, 2)
LEARNER = "clipd2p"


class PowerCut(Exception):
    """The power failed during a commit."""

    def __init__(self, node: str) -> None:
        super().__init__(node)
        self.node = node


class FailingStore(MemoryStore):
    """Store whose device loses power during some commits, just before or just after they are durable.

    Args:
        node: node id of the device.
        state: the learner's initial state.
        fate: source of randomness for power cuts.
        probability: probability of a power cut in a commit. In addition, setting `doom` to `before` or `after` cuts the
            power at the next commit.
    """

    def __init__(self, node: str, state: Any, fate: random.Random, probability: float) -> None:
        super().__init__(state)
        self._node = node
        self._fate = fate
        self._probability = probability
        self.doom = ""
        self.cuts = {"before": 0, "after": 0}

    def commit(
        self, state: Any, sent: Sequence[Outgoing], confirmed: Sequence[str], seen: tuple[str, NewestMessage] | None
    ) -> None:
        """See Store.commit."""
        cut = self._fate.choice(("before", "after")) if self._fate.random() < self._probability else self.doom
        self.doom = ""
        if cut != "before":
            super().commit(state, sent, confirmed, seen)
        if cut:
            self.cuts[cut] += 1
            raise PowerCut(self._node)


class CountingNoise(SeededNoise):
    """Seeded noise source that counts the words drawn from it."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.drawn = 0

    def random_words(self, count: int) -> NDArray[np.uint64]:
        """See NoiseSource.random_words."""
        self.drawn += count
        return super().random_words(count)


class WatchedVault(WrappedVault):
    """Vault that compares each answer with the first answer for the same slot."""

    def __init__(self, vault: Vault, ledger: Ledger, noise: CountingNoise) -> None:
        super().__init__(vault)
        self.ledger = ledger
        self._noise = noise
        self.first_answers: dict[int, bytes] = {}
        self.repeats = 0
        self.sums = [np.zeros(KERNEL.size, dtype=np.int64)]

    def answer(self, query: Query) -> Answer:
        """See Vault.answer."""
        self.repeats += query.slot in self.first_answers
        return self._answer_and_check(query)

    def get_release(self, slot: int) -> Release:
        """Return the ledger's release for a slot that was queried."""
        assert slot in self.first_answers, "a private step without a release"
        return self._answer_and_check(Query(LEARNER, "gradient", slot, np.zeros(KERNEL.size)))

    def _answer_and_check(self, query: Query) -> Release:
        drawn = self._noise.drawn
        answer = self._vault.answer(query)
        assert not isinstance(answer, Refused)
        value = answer.value.tobytes()
        if query.slot in self.first_answers:
            assert self.first_answers[query.slot] == value, "the same slot was released twice"
            assert self._noise.drawn == drawn, "noise was drawn for a release that exists"
        self.first_answers[query.slot] = value
        return answer


@dataclass(frozen=True, slots=True)
class Fleet:
    """Devices, with everything that is needed to add up their mass.

    Attributes:
        devices: the devices, in order.
        vaults: the devices' vaults, by node id.
        stores: the devices' stores, by node id.
        initial: int64[P], the sum of all numerators at the start.
    """

    devices: list[Device]
    vaults: dict[str, WatchedVault]
    stores: dict[str, FailingStore]
    initial: NDArray[np.int64]

    @property
    def by_name(self) -> dict[str, Device]:
        """Devices by node id."""
        return {device.id: device for device in self.devices}

    def account(self) -> tuple[NDArray[np.int64], int]:
        """Add up all mass, numerator and weight, excluding the contributions of private steps.

        A share counts with its sender until its recipient has durably applied it, and no longer after that.
        """
        numerator = np.zeros_like(self.initial)
        weight = 0
        saved = {node: store.load() for node, store in self.stores.items()}
        for device in self.devices:
            core = device.core
            state, outbox = (core.state, core.outbox) if core else _state_and_outbox(saved[device.id])
            numerator += state.numerator + self._sum_contributions(device, state.step)
            weight += state.weight
            for outgoing in outbox:
                seen = saved[outgoing.recipient].seen.get(device.id)
                if seen is None or seen.sequence < outgoing.sequence or seen.refusal:
                    share = cast(PushSumShare, outgoing.parcel)
                    numerator += share.numerator
                    weight += share.weight
        return numerator, weight

    def assert_conserved(self) -> None:
        """Assert that no mass appeared or vanished, to the last bit, and that every release belongs to a slot."""
        numerator, weight = self.account()
        assert weight == len(self.devices) * WEIGHT_ONE
        assert numerator.tolist() == self.initial.tolist()

    def assert_one_release_per_slot(self) -> None:
        """Assert that the ledgers contain exactly one charge and one release for each queried slot."""
        for node, vault in self.vaults.items():
            spending = vault.ledger.spending()
            assert spending.charges == spending.releases == len(vault.first_answers), node
            assert sorted(vault.first_answers) == list(range(len(vault.first_answers)))

    def _sum_contributions(self, device: Device, step: int) -> NDArray[np.int64]:
        """Return the sum of a device's first `step` contributions, computed from its ledger."""
        sums = self.vaults[device.id].sums
        while len(sums) <= step:
            slot = len(sums) - 1
            release = self.vaults[device.id].get_release(slot)
            state = PushSumState(sums[-1], WEIGHT_ONE, step=slot)
            move = contribution(cast(PushSum, device.learner).schedule, state, release.value, release.step)
            sums.append(sums[-1] + move)
        return sums[step]


def fleet(
    agents: int,
    topology: str | list[list[int]],
    *,
    seed: int,
    steps: int,
    fanout: int = 1,
    epsilon: float | None = 8.0,
    power_cuts: float = 0.0,
    spread: float = 1.0,
) -> Fleet:
    """Make a fleet with random numerators of the given spread, weights of 1, and three records per device."""
    rng = np.random.default_rng(seed)
    fate = random.Random(seed)
    names = [f"device-{i}" for i in range(agents)]
    peers = out_peers(topology, agents) if isinstance(topology, str) else topology
    devices, vaults, stores = [], {}, {}
    initial = np.zeros(KERNEL.size, dtype=np.int64)
    for i, name in enumerate(names):
        learner = PushSum(
            Schedule(
                learner=LEARNER, size=KERNEL.size, period=1.0,
                steps=steps, step_size=0.5, step_decay=0.5, expected_records=3, fanout=fanout,
            )
        )  # fmt: skip
        ledger = Ledger.in_memory(name, Budget(epsilon, 1e-5, "record", "add-remove"))
        noise = CountingNoise(seed * 1000 + i)
        vault = build(
            records=Records(rng.uniform(-1, 1, (3, 2)), rng.integers(0, 2, 3)),
            kernel=KERNEL,
            terms=GradientTerms(learner=LEARNER, releases=max(1, steps), clip=0.5),
            ledger=ledger,
            noise=noise,
        )
        vaults[name] = WatchedVault(vault, ledger, noise)
        numerator = np.rint(rng.normal(0, spread, KERNEL.size) * WEIGHT_ONE).astype(np.int64)
        initial += numerator
        stores[name] = FailingStore(name, PushSumState(numerator, WEIGHT_ONE), fate, power_cuts)
        devices.append(
            Device(name, learner, stores[name], cast(Vault, vaults[name]), tuple(names[j] for j in peers[i]))
        )
    return Fleet(devices, vaults, stores, initial)


def random_graph(agents: int, seed: int) -> list[list[int]]:
    """Draw a random graph without empty out-sets or self-loops; most are not strongly connected."""
    fate = random.Random(seed)
    sets: dict[int, list[int]] = defaultdict(list)
    for i in range(agents):
        others = [j for j in range(agents) if j != i]
        sets[i] = fate.sample(others, fate.randint(1, len(others)))
    return [sets[i] for i in range(agents)]


def _state_and_outbox(saved: SavedState) -> tuple[PushSumState, Sequence[Outgoing]]:
    return saved.state, saved.outbox
