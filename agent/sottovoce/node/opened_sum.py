"""An opened secure sum as a document that its members sign, and the check of the signatures.

Every member that opens a sum signs exactly this content: the task, the round, the members, the sum and its noise. A
member signs one content per task and sum. A file with enough of these signatures proves the sum to anyone who has the
fleet's certificate, without the masked vectors.

How many signatures are enough is the number t of members that could open the sum. More than f of them are needed for
any content, so f colluding members alone cannot confirm a sum that was not opened; and because 2t > n + f, two
different contents cannot both be confirmed.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from hashlib import sha256
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from sottovoce.errors import DataError, IdentityError, MessageRefused
from sottovoce.fleet.authority import Authority
from sottovoce.fleet.framing import frame_fields
from sottovoce.node.provenance import SignatureVerifier
from sottovoce.privacy.cell import Cell
from sottovoce.task import LARGEST, Task, read

SCHEMA = "sottovoce.result/1"
MAX_FILE_BYTES = 2**25
"""Maximum size of a result file: 1,024 signatures with certificates, and a sum of a million numbers."""

LEAST_SIGNERS = 3
"""Number of signatures to demand at least if nothing but the file itself says what the task is.

The members' own configurations define such a task, so liars could sign a task of their own with smaller cells.
"""

_DOMAIN = b"sottovoce/opened-sum/v1"
_CELL_FIELDS = ("least", "most", "colluding", "threshold", "spare")
_SECONDS_A_DAY = 86_400
_FIRST_DAY = date(1970, 1, 1)

_Node = Annotated[str, Meta(min_length=1, max_length=64)]
_Hex = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
_Integer = Annotated[int, Meta(ge=-(2**62), le=2**62)]


class OpenedSum(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The public result of a secure sum, which each of its members computes and signs.

    Attributes:
        fleet: the fleet's name.
        task: the canonical task document, from which the members' settings are read; see sottovoce.task.
        slot: number of the sum within the task, from 0.
        round: digest of the round, in hexadecimal digits.
        owners: node ids of the roster's members, ascending.
        survivors: roster indices of the members whose vectors are in the sum, ascending.
        exponent: the sum's unit is 2**exponent.
        total: the sum over the survivors with all of its noise, int64[P] in units.
        share: σ of the discrete Gaussian noise that each survivor added to each number, in units; 0 for no noise.
        epsilon: ε that this task costs each member at most; None for no guarantee.
        delta: δ of this guarantee; None for no guarantee.
    """

    fleet: Annotated[str, Meta(min_length=1, max_length=40)]
    task: Annotated[str, Meta(max_length=LARGEST)]
    slot: Annotated[int, Meta(ge=0, le=2**53)]
    round: _Hex
    owners: Annotated[tuple[_Node, ...], Meta(min_length=1, max_length=1024)]
    survivors: Annotated[tuple[Annotated[int, Meta(ge=0, lt=1024)], ...], Meta(min_length=1, max_length=1024)]
    exponent: Annotated[int, Meta(ge=-1100, le=1100)]
    total: Annotated[tuple[_Integer, ...], Meta(min_length=1, max_length=2**20)]
    share: Annotated[int, Meta(ge=0, le=2**62)]
    epsilon: Annotated[float, Meta(gt=0)] | None
    delta: Annotated[float, Meta(ge=0, lt=1)] | None

    def __post_init__(self) -> None:
        """Check that the roster and the survivors are ordered and consistent."""
        if list(self.owners) != sorted(set(self.owners)):
            raise ValueError("the roster's members are unordered, or one is listed twice")
        if list(self.survivors) != sorted(set(self.survivors)) or self.survivors[-1] >= len(self.owners):
            raise ValueError("the survivors are not ascending positions in the roster")

    @property
    def encoding(self) -> bytes:
        """The canonical encoding: JSON with sorted names and no spaces."""
        return msgspec.json.encode(self, order="sorted")

    @property
    def digest(self) -> bytes:
        """The SHA-256 digest of the canonical encoding, 32 bytes, which the members sign."""
        return sha256(self.encoding).digest()

    def read_task(self) -> Task:
        """Return the task document.

        Raises:
            ValueError: if the text is not a task document in canonical form.
        """
        return read(self.task.encode())

    @property
    def epoch(self) -> int:
        """The epoch of the fleet task; 0 for a task of the members' own configurations."""
        epoch = self.read_task().settings.get("task.epoch")
        return epoch if isinstance(epoch, int) else 0

    @property
    def members(self) -> int:
        """The number of members in the sum."""
        return len(self.survivors)

    @property
    def unit(self) -> float:
        """The sum's unit, 2**exponent."""
        return float(2.0**self.exponent)

    @property
    def sums(self) -> NDArray[np.float64]:
        """The sum over the members, float64[P]."""
        return np.array(self.total, dtype=np.float64) * self.unit

    @property
    def sigma(self) -> float:
        """σ of the noise in each number of the sum; 0 for no noise."""
        return float(self.share * self.members**0.5 * self.unit)

    def read_cell(self) -> Cell:
        """Return the size limits of the task's secure sums.

        Raises:
            ValueError: if the task has no secure sums, or its limits are not valid.
        """
        settings = self.read_task().settings
        limits: dict[str, Any] = {name: settings.get(f"privacy.cell.{name}") for name in _CELL_FIELDS}
        if not all(isinstance(limit, int | float) for limit in limits.values()):
            raise ValueError("the task has no secure sums")
        cell = Cell(**limits)
        if cell.defect is not None:
            raise ValueError(f"the task's privacy.cell.{cell.defect[0]} is not valid")
        return cell

    @property
    def days(self) -> tuple[date, date] | None:
        """The first and the last day that the task averages, inclusive; None if it does not say."""
        windows = self.read_task().settings.get("data.windows")
        if not isinstance(windows, list) or not all(isinstance(day, int) for day in windows):
            return None
        first, last = (_FIRST_DAY + timedelta(days=int(day)) for day in windows)  # type: ignore[arg-type]
        return first, last


class Confirmation(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A member's signature on an opened sum.

    Attributes:
        owner: the member's node id.
        day: day on which it opened the sum, in days since 1970-01-01 UTC, by its own clock.
        credential: the member's certificate, DER.
        signature: the member's signature on the sum's digest and the day.
    """

    owner: _Node
    day: Annotated[int, Meta(ge=0, lt=2**31)]
    credential: Annotated[bytes, Meta(max_length=4096)] = b""
    signature: Annotated[bytes, Meta(max_length=128)] = b""

    def of(self, opened: OpenedSum) -> "SignedSum":
        """Return the confirmation together with the sum that it confirms."""
        return SignedSum(self.owner, self.day, opened.digest, self.credential, self.signature)


@dataclass(frozen=True, slots=True)
class SignedSum:
    """A confirmation of one sum, in the form that sottovoce.learning.learners.Signed requires.

    Attributes:
        owner: see Confirmation.
        day: see Confirmation.
        digest: digest of the sum.
        credential: see Confirmation.
        signature: see Confirmation.
    """

    owner: str
    day: int
    digest: bytes
    credential: bytes = b""
    signature: bytes = b""

    def signed_bytes(self, fleet: str, task: bytes) -> bytes:
        """Return the bytes that the member signs; see Signed.signed_bytes."""
        fields = (fleet.encode(), task, self.owner.encode(), self.digest, self.day.to_bytes(4, "big"))
        return frame_fields(_DOMAIN, fields)

    @property
    def confirmation(self) -> Confirmation:
        """The confirmation without the sum."""
        return Confirmation(owner=self.owner, day=self.day, credential=self.credential, signature=self.signature)


class ResultFile(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="schema", tag=SCHEMA):
    """An opened sum with its confirmations: what a device stores, and what `sottovoce results --out` writes.

    Attributes:
        opened: the sum.
        confirmations: the members' signatures, ordered by owner.
        revoked: the fleet's signed revocation list when the file was written; empty if there was none.
        fleet_task: the signed fleet task from which the task document was made; empty for a task of the members' own
            configurations.
    """

    opened: OpenedSum
    confirmations: Annotated[tuple[Confirmation, ...], Meta(max_length=1024)]
    revoked: bytes = b""
    fleet_task: bytes = b""

    @property
    def encoding(self) -> bytes:
        """The canonical encoding: JSON with sorted names and no spaces, followed by a line end."""
        return msgspec.json.encode(self, order="sorted") + b"\n"

    def with_confirmations(self, confirmations: Collection[Confirmation]) -> "ResultFile":
        """Return the file with these confirmations added, one per member."""
        by_owner = {each.owner: each for each in (*confirmations, *self.confirmations)}
        return msgspec.structs.replace(self, confirmations=tuple(by_owner[owner] for owner in sorted(by_owner)))


def read_result(raw: bytes, source: object) -> ResultFile:
    """Decode a result file from an untrusted source, without checking its signatures.

    Args:
        raw: the file's content.
        source: what to call the file in error messages.

    Raises:
        DataError: if the file is not a result file in canonical form.
    """
    try:
        if len(raw) > MAX_FILE_BYTES:
            raise ValueError(f"{len(raw)} bytes are more than a result file may have")
        document = msgspec.json.decode(raw, type=ResultFile)
        document.opened.read_cell()
    except (msgspec.DecodeError, ValueError, UnicodeError, RecursionError) as error:
        raise DataError(
            f"{source} is not a result file that this version can read ({error}); write it again with `sottovoce "
            "results --out FILE`"
        ) from error
    if document.encoding != raw:
        raise DataError(f"{source} is not as it was written: its form is not canonical; obtain the file again")
    return document


@dataclass(frozen=True, slots=True)
class Verification:
    """Outcome of the check of a result's signatures.

    Attributes:
        signers: node ids of the members whose signatures count, ascending.
        required: number of signatures that are needed.
        revoked: node ids of the signers that the fleet has revoked, whose signatures do not count.
        opened_on: the median day on which the signers opened the sum.
    """

    signers: tuple[str, ...]
    required: int
    revoked: tuple[str, ...]
    opened_on: date


def check_confirmation(confirmation: Confirmation, opened: OpenedSum, authority: Authority) -> None:
    """Check that a member of the roster signed exactly this sum, with a certificate that was valid on the day it names.

    Raises:
        MessageRefused: if the signature or the certificate is not valid, or the signer was not in the roster.
    """
    if confirmation.owner not in opened.owners:
        raise MessageRefused("cell", f"{confirmation.owner} signed the result, but was not a member of its sum")
    verifier, signed = SignatureVerifier(authority, opened.read_task().digest), confirmation.of(opened)
    try:
        verifier.admit(signed, confirmation.day * _SECONDS_A_DAY)
    except MessageRefused:  # a certificate that was issued on that day is valid at its end
        verifier.admit(signed, (confirmation.day + 1) * _SECONDS_A_DAY)


def verify_result(
    document: ResultFile, authority: Authority, revoked: Collection[str], required: int = LEAST_SIGNERS
) -> Verification:
    """Check that enough members of a sum signed exactly its content.

    Args:
        document: the result.
        authority: authority of the fleet to which the members must belong.
        revoked: node ids of the devices that the fleet has revoked.
        required: number of signatures to demand even if the task demands fewer.

    Raises:
        IdentityError: if the result is not from this fleet, a signature is not valid, or too few members signed.
    """
    opened = document.opened
    if opened.fleet != authority.fleet:
        raise IdentityError(f"the result is from fleet {opened.fleet!r}, not from {authority.fleet!r}")
    cell, size = opened.read_cell(), len(opened.owners)
    needed = max(cell.opening_threshold(size), required)
    if not cell.least <= size <= cell.most or opened.members < cell.opening_threshold(size):
        raise IdentityError(
            f"the result names {opened.members} of {size} members, which its task does not allow: no sum of this "
            "fleet was opened so"
        )
    owners = [each.owner for each in document.confirmations]
    if owners != sorted(set(owners)):
        raise IdentityError("the result's signatures are unordered, or a member signed twice")
    for confirmation in document.confirmations:
        try:
            check_confirmation(confirmation, opened, authority)
        except MessageRefused as error:
            raise IdentityError(
                f"the signature of {confirmation.owner} is not valid for this content ({error}): the file was altered, "
                "or is a forgery"
            ) from error
    counted = [each for each in document.confirmations if each.owner not in revoked]
    withdrawn = tuple(owner for owner in owners if owner in revoked)
    if len(counted) < needed:
        of_revoked = f", not counting {len(withdrawn)} that the fleet has revoked" if withdrawn else ""
        raise IdentityError(
            f"{len(counted)} members signed the result{of_revoked}, but {needed} of {size} must: obtain the file again "
            "from a device that holds more signatures"
        )
    days = sorted(each.day for each in counted)
    opened_on = datetime.fromtimestamp(days[len(days) // 2] * _SECONDS_A_DAY, UTC).date()
    return Verification(tuple(each.owner for each in counted), needed, withdrawn, opened_on)
