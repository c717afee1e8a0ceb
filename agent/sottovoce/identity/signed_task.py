"""A task that the fleet has signed: the learning task of its devices, with its first and last day."""

from collections.abc import Callable
from typing import Annotated, Any

from msgspec import DecodeError, Meta, Struct, ValidationError, json, structs

from sottovoce.errors import IdentityError
from sottovoce.identity.authority import Authority, check_signed
from sottovoce.identity.fleet_keys import MAX_CHANGES, KeyChange
from sottovoce.identity.framing import framed
from sottovoce.task import LARGEST_SIGNED

_DEEPEST = 5  # tables of tables of lists of lists of numbers
_DOMAIN = b"sottovoce/fleet-task/v1"
_Time = Annotated[int, Meta(ge=0, le=2**53)]


class SignedTask(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A task with the fleet's signature.

    Attributes:
        fleet: the fleet's name.
        epoch: from 1; the highest one counts.
        issued: seconds of Unix time, by the clock of the signer; for people to read.
        begins: Unix time at which devices change over; a past time means at once.
        ends: Unix time after which nothing more is released for it; None for no end.
        purpose: purpose of the result, by which a device's owner may refuse it.
        period: budget period that it opens, if budgets renew; 0 for the first. See sottovoce.vault.periods.
        tables: `[task]`, `[data]`, `[learner]` and `[privacy]` of a configuration, without each device's own keys.
        keys: changes of the fleet's keys; empty if there are none.
        signature: ECDSA P-256 with SHA-256, DER, in hexadecimal digits, by the fleet's key over all of the above.
    """

    fleet: Annotated[str, Meta(min_length=1, max_length=40)]
    epoch: Annotated[int, Meta(ge=1, le=2**53)]
    issued: _Time
    begins: _Time = 0
    ends: _Time | None = None
    purpose: Annotated[str, Meta(max_length=200)] = ""
    period: Annotated[int, Meta(ge=0, le=2**53)] = 0
    tables: dict[str, dict[str, Any]]
    keys: tuple[KeyChange, ...] = ()
    signature: Annotated[str, Meta(pattern="^([0-9a-f]{2}){0,80}$")] = ""

    def __post_init__(self) -> None:
        """Check that the tables are not nested deeper than a configuration's."""
        _check_depth(self.tables, _DEEPEST)

    @property
    def encoded(self) -> bytes:
        """Canonical encoding: JSON with sorted names and no blanks, without `period` and `keys` at their defaults."""
        unnamed = {"period": 0, "keys": ()}
        named = {key: value for key, value in structs.asdict(self).items() if unnamed.get(key) != value}
        return json.encode(named, order="sorted")

    def signed(self, sign: Callable[[bytes], bytes]) -> "SignedTask":
        """Return a copy that is signed with the fleet's key."""
        return structs.replace(self, signature=sign(self._signed_bytes()).hex())

    def verify(self, authority: Authority) -> None:
        """Check that the fleet of an authority signed the task.

        Raises:
            IdentityError: if it belongs to another fleet, or was not signed by this one.
        """
        check_signed(
            authority,
            self.fleet,
            self._signed_bytes(),
            bytes.fromhex(self.signature),
            "the task",
            f"epoch {self.epoch}",
            self.keys,
        )

    def _signed_bytes(self) -> bytes:
        return framed(_DOMAIN, (structs.replace(self, signature="").encoded,))


def _check_depth(value: Any, left: int) -> None:
    """Raise ValueError if a value is nested more deeply than this."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if left == 0 and inside:
        raise ValueError("the task's tables are nested too deeply")
    for one in inside:
        _check_depth(one, left - 1)


def read_task(raw: bytes, source: object) -> SignedTask:
    """Read a signed task from an untrusted source without verifying it; `source` names it in the error.

    Raises:
        IdentityError: if it is malformed, too large, or not in canonical form.
    """
    if len(raw) > LARGEST_SIGNED:
        raise IdentityError(
            f"{source} is not a signed fleet task: it has {len(raw)} bytes, and the limit is {LARGEST_SIGNED}"
        )
    try:
        task = json.decode(raw, type=SignedTask)
    except (DecodeError, ValidationError, UnicodeError, RecursionError) as error:
        raise IdentityError(f"{source} is not a task that this version of the program knows: {error}") from error
    if task.encoded != raw or len(task.keys) > MAX_CHANGES:
        raise IdentityError(f"{source} is not a signed fleet task: it is not in its canonical form")
    return task
