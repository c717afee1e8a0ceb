"""Fleet of devices in secure sums under a virtual clock, some of which may lie."""

from collections.abc import Callable, Collection, Mapping

import numpy as np
from numpy.typing import NDArray
from sottovoce.algorithms.cell.public.machine import Cells
from sottovoce.algorithms.cell.public.state import CellState
from sottovoce.algorithms.cell.public.sum_consumer import MeanConsumer
from sottovoce.algorithms.steps.public.descent import UNIT
from sottovoce.data import Records
from sottovoce.kernels.profile import Profile
from sottovoce.privacy.cell import Cell
from sottovoce.privacy.terms import build
from sottovoce.privacy.terms.means import MeanTerms
from sottovoce.privacy.vault import Budget, Ledger, SeededNoise, Vault
from sottovoce_lab.simulator import Device, Simulation
from sottovoce_lab.simulator.faults import Faults
from sottovoce_lab.testbed.memory_store import MemoryStore

from tests.cells.fleet import CLIP, LEARNER, Pretended, belongs
from tests.cells.liars import DealsAnotherSeed, with_another_seed

Learners = Callable[..., Cells]


class World:
    """Devices that compute one noise-free mean.

    Args:
        count: number of devices.
        liars: learner class of each liar, by device; `Cells` for all others.
        cell: rule of the cell.
        faults: faults of the network.
        seed: seed of all randomness.
    """

    size = 3

    def __init__(
        self,
        *,
        count: int = 20,
        liars: Mapping[str, Learners] | None = None,
        cell: Cell | None = None,
        faults: Faults | None = None,
        seed: int = 1,
    ) -> None:
        self.names = [f"member-{number:02d}" for number in range(count)]
        self.cell = cell or Cell(least=count // 2 + 2, most=count, colluding=1, threshold=0.7, spare=1)
        self.liars = dict(liars or {})
        self.terms = MeanTerms(LEARNER, Profile(self.size, CLIP), self.cell)
        budget = Budget(None, 1e-5, "device", "add-remove")
        self.mechanism = self.terms.cell_mechanism(budget)
        self.values = {name: np.full(self.size, number % 20 / 32) for number, name in enumerate(self.names)}
        self.devices = [self._device(name, budget, seed) for name in self.names]
        self._is_started = False
        self.simulation = Simulation(self.devices, faults=faults or Faults(), period=1.0, seed=seed)

    @property
    def honest(self) -> list[Device]:
        """Devices that do not lie."""
        return [device for device in self.devices if device.id not in self.liars]

    def start(self, late: Collection[str] = ()) -> None:
        """Start all devices but the late ones."""
        self.simulation.start()
        for name in late:
            self.simulation.kill(name)
        self._is_started = True

    def restart(self, names: Collection[str]) -> None:
        """Start these devices, unless they are running."""
        for name in names:
            if self.simulation.devices[name].core is None:
                self.simulation.restart(name)

    def separate(self, names: Collection[str]) -> None:
        """Cut these devices off from the others, in place of any devices that were cut off before."""
        self.simulation.cut_off = frozenset(names)

    def run(self, seconds: float) -> "World":
        """Run the simulation up to this time, starting it first if necessary."""
        if not self._is_started:
            self.start()
        self.simulation.run_until(seconds)
        return self

    def state(self, name: str) -> CellState:
        """Return the state that a device has in memory."""
        core = self.simulation.devices[name].core
        assert core is not None
        state = core.state
        assert isinstance(state, CellState)
        return state

    def state_in_a_round(self, name: str) -> CellState:
        """Run until a device's masked vector has been sent, and return its state."""
        self.simulation.start()
        device = self.simulation.devices[name]
        while device.core is None or self.state(name).stage != "held":
            self.simulation.step()
        return self.state(name)

    def informed_devices(self) -> list[str]:
        """Return honest devices that have the mean of some set of members that can be opened."""
        return [device.id for device in self.honest if self._has_correct_mean(self.state(device.id))]

    def sums(self) -> set[bytes]:
        """Return the different sums that honest devices know."""
        return {
            numerator.tobytes() for device in self.honest if (numerator := self.state(device.id).numerator) is not None
        }

    def largest_charge_count(self) -> int:
        """Return the largest number of charges that an honest device has paid."""
        return max(device.vault.spending().charges for device in self.honest)

    def devices_naming(self, liar: str) -> list[str]:
        """Return honest devices whose status names a device."""
        results = []
        for device in self.honest:
            learner = device.learner
            assert isinstance(learner, Cells)
            details = learner.progress(self.state(device.id)).details
            if any(liar in str(details.get(key, "")) for key in ("dishonest", "doubted")):
                results.append(device.id)
        return results

    def waits(self, name: str) -> str:
        """Return what a device waits for, according to its status."""
        return str(self.simulation.devices[name].learner.progress(self.state(name)).details["waits"])

    def wrongly_struck(self) -> set[str]:
        """Return honest devices that another honest device has struck."""
        return {node for device in self.honest for node in self.state(device.id).dishonest if node not in self.liars}

    def _has_correct_mean(self, state: CellState) -> bool:
        """Check whether the mean in a state is that of members whose sum was opened."""
        return state.numerator is not None and any(
            np.allclose(state.numerator / UNIT, np.mean([self.values[name] for name in names], axis=0), atol=1e-4)
            for names in self._opened_sets()
        )

    def _opened_sets(self) -> set[tuple[str, ...]]:
        """Return the survivors of each round that an honest device has opened."""
        results = set()
        for device in self.honest:
            if (opened := self.state(device.id).opened) is not None:
                owners = opened.verified.roster.owners
                results.add(tuple(owners[place] for place in opened.verified.survivors))
        return results

    def _device(self, name: str, budget: Budget, seed: int) -> Device:
        learner = self.liars.get(name, Cells)(
            LEARNER,
            owner=name,
            consumer=MeanConsumer(
                self.terms.profile,
                self.mechanism.step,
                self.mechanism.width,
                self.mechanism.largest_value,
                self.mechanism.share,
            ),
            period=1.0,
            cell=self.cell,
            provenance=Pretended(),
        )
        others = tuple(other for other in self.names if other != name)
        vault, honest = self._vault(name, budget, seed), name not in self.liars
        return Device(name, learner, MemoryStore(learner.initial_state()), vault, others, is_honest=honest)

    def _vault(self, name: str, budget: Budget, seed: int) -> Vault:
        rows: NDArray[np.float64] = self.values[name][np.newaxis]
        vault = build(
            records=Records(rows, np.zeros(1, dtype=np.int64)),
            kernel=None,
            terms=self.terms,
            ledger=Ledger.in_memory(name, budget),
            noise=SeededNoise(1000 * seed + self.names.index(name)),
            verify_signature=belongs,
        )
        return with_another_seed(vault) if self.liars.get(name) is DealsAnotherSeed else vault
