"""Steps of a secure sum, in the guaranteed order: check, charge, compute, add noise, mask, store, return."""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from sottovoce.data import Records
from sottovoce.errors import MessageRefused, TaskRefused
from sottovoce.privacy.accounting.events import Event, with_units
from sottovoce.privacy.accounting.units import EVERY, Units
from sottovoce.privacy.api import CellAnswer, CellQuery, Refused
from sottovoce.privacy.ledger.budget import StoredRelease
from sottovoce.privacy.ledger.ledger import Ledger
from sottovoce.privacy.mechanisms.cell_sum import CellMechanism
from sottovoce.privacy.mechanisms.clipped_sum import Batches
from sottovoce.privacy.mechanisms.noise import NoiseSource
from sottovoce.privacy.secure_sum.masks import unpack_values
from sottovoce.privacy.secure_sum.steps import (
    Agree,
    Answer,
    Begin,
    End,
    Ended,
    Join,
    Mask,
    Question,
    Reveal,
    Survive,
    Vector,
    decode_question,
    encode_step,
)
from sottovoce.privacy.vault.cell_member import CellMember
from sottovoce.privacy.vault.record_selection import select_units

_CHARGE = b"sottovoce/cell-charge/v1"


@dataclass(frozen=True, slots=True)
class CellContext:
    """Components of a vault that takes part in secure sums.

    Attributes:
        learner: name of the learner that uses the sums.
        member: the member, with its secrets for the current round.
        mechanism: bound and noise of this device's contribution.
        points: length of the point at which a sum is computed.
        raw: computes the rows to clip and sum from the records, at a point float64[points].
        records: the private records.
        ledger: the ledger, open for charging.
        noise: the source of randomness.
        units: the ledger's units that pay; for a feed, the days that have ended.
    """

    learner: str
    member: CellMember
    mechanism: CellMechanism
    points: int
    raw: Callable[[NDArray[np.float64], Records], Batches]
    records: Records
    ledger: Ledger
    noise: NoiseSource
    units: Units = EVERY

    def step(self, query: CellQuery) -> CellAnswer | Refused | None:
        """Perform one step and return its answer, or None if the budget cannot pay for it.

        A step that does not follow from the previous steps is refused and changes nothing. A charge belongs to one
        offer, whose secrets exist only in memory. It therefore pays for one masked vector, or for none if the device
        stops first.

        Raises:
            LedgerError: if the ledger failed; nothing was released.
        """
        try:
            question = decode_question(query.payload)
            if query.learner != self.learner:
                raise MessageRefused("cell", "this vault is configured for a different learner's sums")
            answer = self._dispatch(question)
        except MessageRefused as refusal:
            return Refused(query.id, "query", str(refusal))
        except TaskRefused as refusal:
            return Refused(query.id, "task", str(refusal))
        return None if answer is None else CellAnswer(query.id, encode_step(answer), self.noise.simulated)

    @property
    def event(self) -> Event:
        """The largest possible cost of a sum."""
        return with_units(self.mechanism.event(self.mechanism.cell.least), self.units)

    def _dispatch(self, question: Question) -> Answer | None:
        match question:
            case Begin(slot=slot, point=point):
                self._parse_point(point)
                return None if self.ledger.payable_units(self.event) != self.units else self.member.begin(slot, point)
            case Join():
                return self.member.join(question)
            case Agree():
                return self.member.agree(question)
            case Mask():
                return self._mask(question)
            case Survive():
                return self.member.survive(question)
            case Reveal():
                return self.member.reveal(question)
            case End(slot=slot):
                self.member.end(slot)
                return Ended()

    def _parse_point(self, raw: bytes) -> NDArray[np.float64]:
        point = np.frombuffer(raw, dtype="<f8").astype(np.float64) if len(raw) == 8 * self.points else None
        if point is None or not np.isfinite(point).all():
            raise MessageRefused("cell", "the point of the requested sum is invalid")
        return point

    def _mask(self, request: Mask) -> Vector | None:
        members, h = self.member.check_ready(request)
        charge, mechanism = sha256(_CHARGE + h).digest(), self.mechanism
        if not self.ledger.charge(charge, with_units(mechanism.event(members), self.units)):
            return None
        paid = select_units(self.records, self.units)
        part = mechanism.apply(self.raw(self._parse_point(self.member.point), paid), members, self.noise)
        width = mechanism.width(members)
        masked = self.member.mask(part, width)
        numbers = unpack_values(masked.vector, width).astype("<u8").tobytes()
        self.ledger.store(charge, StoredRelease(mechanism.exponent, numbers, self.noise.simulated))
        return masked
