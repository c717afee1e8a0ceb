"""Fleets of real cores, learners and vaults, with stores that can fail, and an account of all their mass."""

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from sottovoce.agent.links import NewestMessage, Outgoing, SavedState
from sottovoce.algorithms.push_sum.public.machine import WEIGHT_ONE, PushSum, PushSumState
from sottovoce.algorithms.push_sum.public.messages import PushSumShare
from sottovoce.algorithms.steps.public.descent import Schedule, contribution
from sottovoce.data import Records
from sottovoce.door import Answer, Query, Refused, Release
from sottovoce.kernels.softmax import Softmax
from sottovoce.vault import Budget, Ledger, SeededNoise, Vault, build
from sottovoce.vault.terms.gradients import GradientTerms
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
    """A store whose device loses power during some commits: just before they are durable, or just after.

    Args:
        node: whose store it is.
        state: the learner's first state.
        fate: decides.
        probability: of a power cut in a commit; besides, `doom` set to `before` or `after` cuts the next one.
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
    """A seeded noise source that counts the words drawn from it."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.drawn = 0

    def random_words(self, count: int) -> NDArray[np.uint64]:
        """See NoiseSource.random_words."""
        self.drawn += count
        return super().random_words(count)


class WatchedVault(WrappedVault):
    """A vault whose every answer is compared with the first one to the same slot."""

    def __init__(self, vault: Vault, ledger: Ledger, noise: CountingNoise) -> None:
        super().__init__(vault)
        self.ledger = ledger
        self._noise = noise
        self.asked: dict[int, bytes] = {}
        self.repeats = 0
        self.sums = [np.zeros(KERNEL.size, dtype=np.int64)]

    def answer(self, query: Query) -> Answer:
        """See Vault.answer."""
        self.repeats += query.slot in self.asked
        return self._checked(query)

    def released(self, slot: int) -> Release:
        """The release that the ledger holds for a slot that was asked for."""
        assert slot in self.asked, "a private step without a release"
        return self._checked(Query(LEARNER, "gradient", slot, np.zeros(KERNEL.size)))

    def _checked(self, query: Query) -> Release:
        drawn = self._noise.drawn
        answer = self._vault.answer(query)
        assert not isinstance(answer, Refused)
        value = answer.value.tobytes()
        if query.slot in self.asked:
            assert self.asked[query.slot] == value, "the same slot was released twice"
            assert self._noise.drawn == drawn, "noise was drawn for a release that exists"
        self.asked[query.slot] = value
        return answer


@dataclass(frozen=True, slots=True)
class Fleet:
    """Devices, and what is needed to hold them to account.

    Attributes:
        devices: in order.
        vaults: theirs.
        stores: theirs.
        initial: int64[P], the sum of all numerators at the start.
    """

    devices: list[Device]
    vaults: dict[str, WatchedVault]
    stores: dict[str, FailingStore]
    initial: NDArray[np.int64]

    @property
    def by_name(self) -> dict[str, Device]:
        """The devices by node id."""
        return {device.id: device for device in self.devices}

    def account(self) -> tuple[NDArray[np.int64], int]:
        """Add up all mass, numerator and weight, with the private steps in it undone.

        A share counts with its sender until its recipient has durably applied it, and no longer after that.
        """
        numerator = np.zeros_like(self.initial)
        weight = 0
        saved = {node: store.load() for node, store in self.stores.items()}
        for device in self.devices:
            core = device.core
            state, outbox = (core.state, core.outbox) if core else _held(saved[device.id])
            numerator += state.numerator + self._private(device, state.step)
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

    def assert_one_release_a_slot(self) -> None:
        """Assert that the ledgers hold one charge and one release for every slot ever asked for, and no other."""
        for node, vault in self.vaults.items():
            spending = vault.ledger.spending()
            assert spending.charges == spending.releases == len(vault.asked), node
            assert sorted(vault.asked) == list(range(len(vault.asked)))

    def _private(self, device: Device, step: int) -> NDArray[np.int64]:
        """The sum of the first `step` contributions of a device, from what its ledger holds."""
        sums = self.vaults[device.id].sums
        while len(sums) <= step:
            slot = len(sums) - 1
            release = self.vaults[device.id].released(slot)
            asking = PushSumState(sums[-1], WEIGHT_ONE, step=slot)
            move = contribution(cast(PushSum, device.learner).schedule, asking, release.value, release.step)
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
    """A fleet with random numerators of the given spread, weights of 1, and three records a device."""
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


def _held(saved: SavedState) -> tuple[PushSumState, Sequence[Outgoing]]:
    return saved.state, saved.outbox
