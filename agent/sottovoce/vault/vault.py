"""The vault: records and ledger inside, queries in, releases out. The order of its six steps is the guarantee."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from sottovoce.data import Records
from sottovoce.door import Answer, PrivacyStatement, Query, Refused, Release
from sottovoce.vault.ledger import Ledger, Spending, Stored
from sottovoce.vault.noise import NoiseSource
from sottovoce.vault.programs import Program
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
    program: Program[Any]
    ledger: Ledger
    noise: NoiseSource
    statement: PrivacyStatement


class Vault:
    """Answers queries about the records of one device. Not for use by two callers at once."""

    def __init__(self, room: Room) -> None:
        self._room = room
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
        query_id, room = query.id, self._room
        plan = room.program.plan(query)
        if isinstance(plan, Refused):
            return plan
        stored = room.ledger.stored(query_id)
        if stored is None:
            if not room.ledger.charge(query_id, plan.event):
                return Refused(query_id, "budget", "the privacy budget is spent")
            value = plan.mechanism.apply(room.program.compute(query, room.records), room.noise)
            stored = Stored(plan.mechanism.exponent, value.astype("<i8").tobytes(), room.noise.simulated)
            room.ledger.store(query_id, stored)
        elif not room.ledger.charged(query_id, plan.event) or len(stored.value) != 8 * plan.mechanism.size:
            return Refused(query_id, "query", "this query was answered before, under other terms or for another model")
        return self._release(query_id, stored)

    def close(self) -> None:
        """Finish what is being answered, then close the ledger."""
        if self._thread is not None:
            self._thread.shutdown(wait=True)
        self._room.ledger.close()

    def _release(self, query_id: bytes, stored: Stored) -> Release:
        value = np.frombuffer(stored.value, dtype="<i8").astype(np.int64)
        value.flags.writeable = False
        return SealedRelease(query_id, value, 2.0**stored.exponent, self._room.statement, stored.simulated)
