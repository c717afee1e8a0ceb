"""Push-sum accounts of a stopped fleet: the mass on each device, the mass in transit, and the contributions in ledgers.

Push-sum conserves mass: the numerators and weights of all devices, plus the shares that were sent but not yet applied,
equal the total contributions, to the last bit. The books are read from files alone, after the processes have ended.
"""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sottovoce.algorithms.push_sum.parts import build_schedule
from sottovoce.algorithms.push_sum.public.machine import WEIGHT_ONE, PushSumState as LearnerState
from sottovoce.algorithms.steps.mixing_state import read_numerator
from sottovoce.algorithms.steps.public.descent import contribution
from sottovoce.config import load
from sottovoce.net.wire import decode, unseal
from sottovoce.net.wire.v1.state_pb2 import PushSumState
from sottovoce.privacy.api import Query
from sottovoce.privacy.vault import Ledger, Spending

from tests.support.devices import Device, kernel
from tests.support.messages import as_push_sum_share


@dataclass(frozen=True, slots=True)
class Books:
    """Exact sums over a fleet, in units of 2^-40.

    Attributes:
        numerator: sum of all numerators held or in transit.
        weight: sum of all weights held or in transit.
        contributed: sum of all releases in the ledgers that were applied.
        joined: weight with which the devices began.
    """

    numerator: NDArray[np.int64]
    weight: int
    contributed: NDArray[np.int64]
    joined: int

    @property
    def are_balanced(self) -> bool:
        return self.weight == self.joined and bool(np.array_equal(self.numerator, -self.contributed))


def books(devices: Sequence[Device]) -> Books:
    """Add up the books of all devices. No process may be running."""
    size = kernel().size
    numerator, contributed, weight = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64), 0
    observed = {device.id: _applied_sequences(device) for device in devices}
    for device in devices:
        state, outbox = _read_state(device)
        numerator += read_numerator(state)
        weight += state.weight
        for recipient, raw in outbox:
            opened = unseal(raw, fleet=device.identity.fleet, recipient=recipient)
            if opened.sequence > observed[recipient].get(device.id, 0):
                share = as_push_sum_share(decode(opened.payload_type, opened.payload))
                numerator += share.numerator
                weight += share.weight
        contributed += _sum_contributions(device, state.step)
    return Books(numerator, weight, contributed, len(devices) * WEIGHT_ONE)


def spending(device: Device) -> Spending:
    """Read a device's spending from its ledger, after checking that the ledger belongs to this device."""
    ledger = Ledger.read(device.ledger)
    try:
        assert ledger.owner == device.id
        return ledger.spending()
    finally:
        ledger.close()


def _read_state(device: Device) -> tuple[PushSumState, list[tuple[str, bytes]]]:
    with closing(sqlite3.connect(device.state / "state.db")) as connection:
        (raw,) = connection.execute("SELECT state FROM learner").fetchone()
        outbox = connection.execute("SELECT peer, parcel FROM link WHERE unconfirmed").fetchall()
    return PushSumState.FromString(raw), outbox


def _applied_sequences(device: Device) -> dict[str, int]:
    """Return the last applied share's sequence number, by sender; a permanently refused share remains its sender's."""
    with closing(sqlite3.connect(device.state / "state.db")) as connection:
        return dict(
            connection.execute(
                "SELECT peer, newest - (refused != '') FROM link WHERE incarnation IS NOT NULL"
            ).fetchall()
        )


def _sum_contributions(device: Device, steps: int) -> NDArray[np.int64]:
    """Return the sum of the contributions of the releases that the device's state records as applied."""
    config = load(device.config)
    schedule = build_schedule(config, kernel().size)
    total = np.zeros(kernel().size, dtype=np.int64)
    ledger = Ledger.read(device.ledger)
    try:
        for slot in range(steps):
            stored = ledger.stored_release(Query(schedule.learner, "gradient", slot, np.zeros(0)).id)
            assert stored is not None, "applied releases are in the ledger"
            state = LearnerState(total, WEIGHT_ONE, step=slot)
            total += contribution(schedule, state, np.frombuffer(stored.value, dtype="<i8"), 2.0**stored.exponent)
    finally:
        ledger.close()
    return total
