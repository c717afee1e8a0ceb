"""A device's knowledge of past sums: openings that it has verified, and results on which enough peers agree."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from sottovoce.algorithms.cell.public.messages import Given, Known, Vectors, Want
from sottovoce.algorithms.cell.public.sum_consumer import Numerator, SumConsumer
from sottovoce.errors import MessageRefused
from sottovoce.learning.learners.learner import shape_refusal
from sottovoce.learning.learners.published_records import Provenance
from sottovoce.privacy.cell import Cell
from sottovoce.privacy.secure_sum.opening import FalseStatement, Opening, VerifiedOpening, verify_opening
from sottovoce.privacy.secure_sum.statements import Masked, ResultCommitment, Statement, body_bytes, decode_body

_MAX_BYTES = 2**21  # size limit for the vectors in one message, in bytes
_MAX_REQUESTED = 256


@dataclass(frozen=True, slots=True)
class OpenedRound:
    """A round with a verified opening, and the masked vectors received so far.

    Attributes:
        verified: the verified opening.
        vectors: masked vectors, keyed by member position.
        sources: devices that have the missing vectors, starting with the next one to ask; empty once none is missing.
        since: the beat on which the current source was first asked.
        retries: the number of retries so far.
    """

    verified: VerifiedOpening
    vectors: Mapping[int, bytes] = field(default_factory=dict)
    sources: tuple[str, ...] = ()
    since: int = 0
    retries: int = 0

    @property
    def slot(self) -> int:
        """The number of the sum."""
        return self.verified.roster.offers[0].slot

    @property
    def missing(self) -> tuple[int, ...]:
        """The positions of the survivors whose vectors have not arrived yet."""
        return tuple(position for position in self.verified.survivors if position not in self.vectors)

    @property
    def next_request(self) -> Want:
        """The next request for missing vectors, limited to 256 positions."""
        return Want(self.verified.round, self.missing[:_MAX_REQUESTED])

    def answer(self, want: Want) -> Vectors:
        """Return the requested vectors, stopping before the first that is missing or does not fit into the message."""
        vectors: dict[int, bytes] = {}
        size = 0
        for position in want.places:
            vector = self.vectors.get(position)
            if vector is None or (vectors and size + len(vector) > _MAX_BYTES):
                break
            vectors[position] = vector
            size += len(vector)
        return Vectors(want.round, tuple(vectors), tuple(vectors.values()))


class Knowledge:
    """Verifies what other devices report about sums, and signs what this device reports.

    Args:
        cell: the cell parameters.
        consumer: the consumer of the sums.
        provenance: signs and verifies statements.
    """

    def __init__(self, cell: Cell, consumer: SumConsumer, provenance: Provenance) -> None:
        self._cell, self._consumer, self._provenance = cell, consumer, provenance

    def verify_opening(self, opening: Opening, numerator: Numerator | None) -> VerifiedOpening | None:
        """Verify an opening and return it, or None if the sum was computed at a model that differs from this device's.

        Raises:
            MessageRefused: if the opening is invalid.
        """
        verified = verify_opening(opening, self._cell, self._provenance.verify, self._provenance.is_revoked)
        point = sha256(self._consumer.point(numerator)).digest()
        return verified if verified.roster.offers[0].point == point else None

    def add_vectors(self, opened: OpenedRound, vectors: Mapping[int, bytes]) -> OpenedRound:
        """Return the round extended by the given vectors, by roster index, each of which is verified first.

        Raises:
            FalseStatement: if a vector is not the one that the survivors confirmed.
        """
        size = self._consumer.size * self._consumer.bytes_per_element(len(opened.verified.roster))
        check_confirmed(opened.verified, vectors, size)
        return replace(opened, vectors={**opened.vectors, **vectors})

    def total(self, opened: OpenedRound) -> NDArray[np.int64]:
        """Return the sum that an opened round yields, int64[P] in grid steps."""
        return opened.verified.total(opened.vectors, self._consumer.size)

    def sign_knowledge(self, owner: str, slot: int, members: int, numerator: Numerator) -> Known:
        """Return a signed statement of the sums that this device knows."""
        body = body_bytes(knowledge_statement(slot, members, numerator))
        return Known(self._provenance.sign(Statement(owner, body)), numerator.astype("<i8").tobytes())

    def verify_knowledge(self, sender: str, known: Known) -> ResultCommitment:
        """Check that another device signed the knowledge it sent, and return that knowledge.

        Raises:
            MessageRefused: if the device did not sign it, or is not currently in the fleet.
        """
        if known.statement.owner != sender:
            raise MessageRefused("cell", "the statement was signed by a device other than its sender")
        self.decode_numerator(known.numerator)
        body = decode_body(known.statement, ResultCommitment)
        if body.numerator != sha256(known.numerator).digest():
            raise MessageRefused("cell", "a device sent a result that differs from the one it signed")
        self._provenance.admit(known.statement)
        return body

    def find_agreed_knowledge(self, votes: Mapping[str, Known]) -> tuple[ResultCommitment, Numerator] | None:
        """Return the result on which at least as many devices agree as are needed to open the smallest cell's sum."""
        bodies = [vote.statement.body for vote in votes.values()]
        for vote in votes.values():
            if bodies.count(vote.statement.body) >= self._cell.opening_threshold(self._cell.least):
                return decode_body(vote.statement, ResultCommitment), self.decode_numerator(vote.numerator)
        return None

    def decode_numerator(self, raw: bytes) -> NDArray[np.int64]:
        """Decode bytes into a numerator, int64[P].

        Raises:
            MessageRefused: if the byte length does not match the model size.
        """
        if len(raw) != 8 * self._consumer.size:
            raise shape_refusal(f"a sum with {len(raw) // 8} values does not fit a model with {self._consumer.size}")
        return np.frombuffer(raw, dtype="<i8").astype(np.int64)


def knowledge_statement(slot: int, members: int, numerator: Numerator) -> ResultCommitment:
    """Return a device's unsigned commitment to its result after `slot` sums."""
    return ResultCommitment(slot, max(1, members), sha256(numerator.astype("<i8").tobytes()).digest())


def check_confirmed(verified: VerifiedOpening, vectors: Mapping[int, bytes], size: int) -> None:
    """Check that these vectors, by roster index, have this size in bytes and are those that the survivors confirmed.

    Raises:
        FalseStatement: if a vector is another one.
    """
    confirmed = dict(zip(verified.survivors, verified.opening.vectors, strict=True))
    for position, vector in vectors.items():
        if len(vector) != size or confirmed.get(position) != sha256(vector).digest():
            raise FalseStatement("cell", "a masked vector is not the one that the survivors confirmed")


def check_vector(vector: Given, h: bytes, size: int) -> None:
    """Check that a masked vector matches its owner's signed digest, without verifying the signature.

    Raises:
        FalseStatement: if the vector has a different digest or length, or belongs to another round.
    """
    masked = decode_body(vector.statement, Masked)
    if masked.round != h or masked.vector != sha256(vector.vector).digest() or len(vector.vector) != size:
        raise FalseStatement("cell", "a masked vector is not the one that its owner signed for this round")
