"""Fleets in secure sums, under any faults, some with a dishonest member.

Every opened sum is exact, each round opens at most one sum, no honest device is struck, and no vault joins a roster
with a revoked device.
"""

import random
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from sottovoce.algorithms.cell.public.machine import Cells
from sottovoce.algorithms.cell.public.sum_consumer import MeanConsumer
from sottovoce.algorithms.steps.public.descent import UNIT
from sottovoce.data import Records
from sottovoce.kernels.profile import Profile
from sottovoce.privacy.api import CellAnswer, CellQuery, Refused
from sottovoce.privacy.cell import Cell
from sottovoce.privacy.mechanisms.cell_sum import CellMechanism
from sottovoce.privacy.secure_sum import steps
from sottovoce.privacy.secure_sum.statements import SurvivorConfirmation
from sottovoce.privacy.terms import build
from sottovoce.privacy.terms.means import MeanTerms
from sottovoce.privacy.vault import Budget, Ledger, SeededNoise, Vault
from sottovoce_lab.simulator import Device, Simulation
from sottovoce_lab.simulator.faults import Faults
from sottovoce_lab.testbed.memory_store import MemoryStore

from tests.cells.fleet import CLIP, LEARNER, Pretended
from tests.cells.liars import LIARS, DealsAnotherSeed, Liar, with_another_seed
from tests.cells.sparse import sparse_graphs

SIZE = 2
_SECONDS = 90.0


@dataclass
class Observations:
    """Observed actions of all vaults in a fleet.

    Attributes:
        parts: by round and owner, the vaults' vectors before masking.
        opened: by round, each set of survivors for which some vault revealed shares.
        seeds: by round, owners whose shares of the seed were revealed.
        keys: by round, owners whose shares of the mask key were revealed.
    """

    parts: dict[bytes, dict[str, NDArray[np.int64]]] = field(default_factory=lambda: defaultdict(dict))
    opened: dict[bytes, set[tuple[str, ...]]] = field(default_factory=lambda: defaultdict(set))
    seeds: dict[bytes, set[str]] = field(default_factory=lambda: defaultdict(set))
    keys: dict[bytes, set[str]] = field(default_factory=lambda: defaultdict(set))

    def record_reveal(self, vault: Vault, stand: SurvivorConfirmation) -> None:
        """Record, and check, that a vault has revealed shares for the survivors that it confirmed."""
        assert vault._cell is not None
        secrets = vault._cell.member._secrets
        assert secrets is not None
        assert secrets.roster is not None
        owners = secrets.roster.owners
        survivors = tuple(owners[place] for place in stand.survivors)
        missing = {owners[place] for place in secrets.members} - {*survivors}
        offers = secrets.roster.digest
        self.opened[stand.round].add(survivors)
        self.seeds[offers] |= {*survivors}
        self.keys[offers] |= missing
        assert len(self.opened[stand.round]) == 1, "two sets of survivors of one round"
        assert not self.seeds[offers] & self.keys[offers], "both shares of a member were revealed"


class ObservedVault:
    """Vault whose actions are recorded. It can be restarted over its ledger, which erases its secrets."""

    def __init__(
        self,
        name: str,
        terms: MeanTerms,
        ledger: Ledger,
        rng: random.Random,
        observations: Observations,
        provenance: Pretended,
        kind: type[Liar] | None,
    ) -> None:
        self._build: Callable[[], Vault] = lambda: build(
            records=Records(np.array([[rng.uniform(-1, 1) for _ in range(SIZE)]]), np.zeros(1, dtype=np.int64)),
            kernel=None,
            terms=terms,
            ledger=ledger,
            noise=SeededNoise(rng.getrandbits(60)),
            verify_signature=provenance.admit,
        )
        self._name, self._seen, self._provenance, self._kind = name, observations, provenance, kind
        self._stand: SurvivorConfirmation | None = None
        self.start()

    def start(self) -> None:
        self.vault, self._stand = self._build(), None
        if self._kind is DealsAnotherSeed:
            with_another_seed(self.vault)
        room = self.vault._cell
        assert room is not None
        mask = room.member.mask

        def record_mask(part: NDArray[np.int64], width: int) -> steps.Vector:
            vector = mask(part, width)
            assert self._name not in self._seen.parts[vector.statement.round], "two vectors of a device in a round"
            self._seen.parts[vector.statement.round][self._name] = part.copy()
            return vector

        room.member.mask = record_mask  # type: ignore[method-assign]

    def step(self, query: CellQuery) -> CellAnswer | Refused:
        answer = self.vault.step(query)
        if isinstance(answer, CellAnswer):
            decoded = steps.decode_answer(answer.payload)
            if isinstance(decoded, steps.Sealed):
                assert not self._provenance.revoked & self._roster(), "a revoked device in a roster"
            elif isinstance(decoded, SurvivorConfirmation):
                assert self._stand in (None, decoded) or self._stand.round != decoded.round, "stood for two sets"
                self._stand = decoded
            elif isinstance(decoded, steps.Revealed):
                assert self._stand is not None
                self._seen.record_reveal(self.vault, self._stand)
        return answer

    def _roster(self) -> set[str]:
        assert self.vault._cell is not None
        secrets = self.vault._cell.member._secrets
        assert secrets is not None
        assert secrets.roster is not None
        return {*secrets.roster.owners}

    def __getattr__(self, name: str) -> object:
        return getattr(self.vault, name)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of one played fleet.

    Attributes:
        charged: number of rounds that some device has paid for.
        opened: number of rounds whose sum was opened.
        informed: number of running devices that have a sum at the end.
        running: number of devices that are running at the end.
        liar: kind of the member that lies; None if all are honest.
    """

    charged: int
    opened: int
    informed: int
    running: int
    liar: str | None


def play(seed: int) -> Outcome:
    """Play one fleet for some tens of beats, every second one with sparse graphs.

    Raises AssertionError if a law is violated.
    """
    with sparse_graphs() if seed % 2 else nullcontext():
        return _play(random.Random(seed), seed)


def _play(rng: random.Random, seed: int) -> Outcome:
    count, colluding = rng.randint(4, 8), rng.choice((0, 1, 1))
    least, threshold = max(3, count - rng.choice((1, 2, 3))), rng.choice((0.6, 0.7, 0.8))
    cell = Cell(least, count + 1, colluding, threshold, rng.choice((0, 1, 2)))
    if cell.defect is not None:
        cell = Cell(count, count + 1, 0, 0.7, 1)
    epsilon = rng.choice((None, 1.0, 8.0))
    observations, names = Observations(), [f"member-{number:02d}" for number in range(count)]
    terms = MeanTerms(LEARNER, Profile(SIZE, CLIP), cell)
    budget = Budget(epsilon, 1e-5, "device", "add-remove")
    mechanism = terms.cell_mechanism(budget)
    step = mechanism.step
    liar = rng.choice(names) if cell.colluding and rng.random() < 0.9 else None
    kind = None if liar is None else LIARS[rng.choice(sorted(LIARS))]
    kinds = {name: kind if name == liar else None for name in names}
    provenance = Pretended()
    vaults: Mapping[str, ObservedVault] = {
        name: ObservedVault(name, terms, Ledger.in_memory(name, budget), rng, observations, provenance, kinds[name])
        for name in names
    }
    devices = [_device(name, vaults[name], names, cell, mechanism, rng, provenance, kinds[name]) for name in names]
    faults = Faults(
        loss=rng.choice((0.0, 0.1, 0.3)),
        delay=(delay := rng.choice((0.05, 0.3, 0.9))),
        delay_spread=delay,
        duplicate=rng.choice((0.0, 0.2)),
        reorder=rng.choice((0.0, 0.2)),
        vault=rng.choice((0.0, 0.5)),
    )
    simulation = Simulation(devices, faults=faults, period=1.0, seed=seed)
    simulation.start()
    down: set[str] = set()
    while simulation.now < _SECONDS:
        simulation.run_until(simulation.now + rng.uniform(0.2, 2.0))
        if rng.random() < 0.15 and simulation.now < 0.6 * _SECONDS:
            _disturb(rng.choice(names), simulation, vaults, down, rng)
        if rng.random() < 0.01 and not provenance.revoked:
            provenance.revoked.add(rng.choice(names))
        _check(simulation, observations, step, liar)
    for name in sorted(down):
        simulation.restart(name)
    simulation.run_until(simulation.now + 10)
    _check(simulation, observations, step, liar)
    running = [device.core.state for device in simulation.devices.values() if device.core is not None]
    return Outcome(
        len(observations.parts),
        len(observations.opened),
        sum(state.slot for state in running),
        len(running),
        None if kind is None else kind.__name__,
    )


def _device(
    name: str,
    vault: ObservedVault,
    names: list[str],
    cell: Cell,
    mechanism: CellMechanism,
    rng: random.Random,
    provenance: Pretended,
    kind: type[Liar] | None,
) -> Device:
    consumer = MeanConsumer(
        Profile(SIZE, CLIP), mechanism.step, mechanism.width, mechanism.largest_value, mechanism.share
    )
    learner = (kind or Cells)(LEARNER, owner=name, consumer=consumer, period=1.0, cell=cell, provenance=provenance)
    others = [other for other in names if other != name and rng.random() < 0.95]
    rng.shuffle(others)
    store, honest = MemoryStore(learner.initial_state()), kind is None
    return Device(name, learner, store, vault, tuple(others), is_honest=honest)  # type: ignore[arg-type]


def _disturb(
    name: str, simulation: Simulation, vaults: Mapping[str, ObservedVault], down: set[str], rng: random.Random
) -> None:
    """Take a device down, with or without its vault, or restart it."""
    if name in down:
        down.discard(name)
        simulation.restart(name)
        return
    simulation.kill(name)
    down.add(name)
    if rng.random() < 0.5:
        vaults[name].start()


def _check(simulation: Simulation, observations: Observations, step: float, liar: str | None) -> None:
    """Check that each honest device holds only a mean of one round's survivors, and has struck no honest device."""
    means = {
        np.rint(sum(observations.parts[h][owner] for owner in survivors) * (step / len(survivors) * UNIT))
        .astype(np.int64)
        .tobytes()
        for h, sets in observations.opened.items()
        for survivors in sets
    }
    for device in simulation.devices.values():
        if device.core is None or device.id == liar:
            continue
        if (found := device.core.state.numerator) is not None:
            assert found.tobytes() in means, "a mean of no round's survivors"
        struck_honest = {node: evidence for node, evidence in device.core.state.dishonest.items() if node != liar}
        assert not struck_honest, f"{device.id} has struck honest devices: {struck_honest}"
