"""The vault: records and ledger inside, queries in, releases out. The order of its six steps is the guarantee."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sottovoce.data import Records
from sottovoce.door import Answer, PrivacyStatement, Query, Refused, Release
from sottovoce.vault.clipping import clipped_units
from sottovoce.vault.discrete_gaussian import DiscreteGaussianSampler
from sottovoce.vault.ledger import Ledger, Spending, Stored
from sottovoce.vault.mechanism import DiscreteGaussian, Mechanism
from sottovoce.vault.noise import NoiseSource
from sottovoce.vault.programs import Plan, Program
from sottovoce.vault.release import SealedRelease


@dataclass(frozen=True, slots=True)
class Room:
    """What a vault is made of.

    Attributes:
        records: the private records.
        program: the private half of the learner.
        ledger: opened for charging.
        noise: the source of randomness.
        statement: the guarantee of the whole run.
    """

    records: Records
    program: Program
    ledger: Ledger
    noise: NoiseSource
    statement: PrivacyStatement


class Vault:
    """Answers queries about the records of one device. Not for use by two callers at once."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._samplers: dict[int, DiscreteGaussianSampler] = {}
        self._thread: ThreadPoolExecutor | None = None

    @property
    def statement(self) -> PrivacyStatement:
        """The guarantee of the whole run."""
        return self._room.statement

    def spending(self) -> Spending:
        """What the ledger says has been spent."""
        return self._room.ledger.spending()

    async def ask(self, query: Query) -> Answer:
        """`answer` in the vault's own thread, so that neither arithmetic nor the disk holds up the event loop."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="vault")
        return await asyncio.get_running_loop().run_in_executor(self._thread, self.answer, query)

    def answer(self, query: Query) -> Answer:
        """Plan, charge, compute, noise, store, return: in this order, and never another.

        The same query id is answered by the same stored bytes, with no new draw and no new charge. A charge whose
        release was never stored (the device died in between) pays for the one release its query may still have.

        Raises:
            LedgerError: the ledger failed, or holds a charge for this query under other terms; nothing was released.
        """
        query_id = query.id
        plan = self._room.program.plan(query)
        if plan is None:
            return Refused(query_id, "query", "the vault's program does not answer such a query")
        if (stored := self._room.ledger.stored(query_id)) is not None:
            value = np.frombuffer(stored.value, dtype="<i8").astype(np.int64)
            if len(value) != plan.size:
                return Refused(query_id, "query", "this query was answered before, for a model of another size")
            return self._release(query_id, value, stored.exponent, stored.simulated)
        mechanism = plan.mechanism
        charge = (mechanism.sensitivity_squared, mechanism.sigma) if isinstance(mechanism, DiscreteGaussian) else (1, 0)
        if not self._room.ledger.charge(query_id, *charge):
            return Refused(query_id, "budget", "the privacy budget is spent")
        value = self._noised(self._sum(query, plan), mechanism)
        stored = Stored(mechanism.exponent, value.astype("<i8").tobytes(), self._room.noise.simulated)
        self._room.ledger.store(query_id, stored)
        return self._release(query_id, value, stored.exponent, stored.simulated)

    def close(self) -> None:
        """Finish what is being answered, then close the ledger."""
        if self._thread is not None:
            self._thread.shutdown(wait=True)
        self._room.ledger.close()

    def _sum(self, query: Query, plan: Plan) -> NDArray[np.int64]:
        """The sum of the clipped rows in grid units, exact: every partial sum is an integer below 2^53."""
        total = np.zeros(plan.size, dtype=np.int64)
        for rows in self._room.program.compute(query, self._room.records):
            units = clipped_units(rows, plan.mechanism.step, plan.mechanism.clip_squared)
            total += np.add.reduce(units, axis=0).astype(np.int64)
        return total

    def _noised(self, total: NDArray[np.int64], mechanism: Mechanism) -> NDArray[np.int64]:
        if not isinstance(mechanism, DiscreteGaussian):
            return total
        sampler = self._samplers.get(mechanism.sigma)
        if sampler is None:
            sampler = self._samplers[mechanism.sigma] = DiscreteGaussianSampler(mechanism.sigma, self._room.noise)
        return total + sampler.draw(len(total))

    def _release(self, query_id: bytes, value: NDArray[np.int64], exponent: int, simulated: bool) -> Release:
        value.flags.writeable = False
        return SealedRelease(query_id, value, 2.0**exponent, self._room.statement, simulated)
