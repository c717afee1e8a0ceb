"""Wire format for contributions, in messages and on disk."""

from collections.abc import Iterable

from sottovoce.algorithms.contributions.public.messages import Contribution, Contributions
from sottovoce.algorithms.steps.public.descent import MAX_NUMERATOR
from sottovoce.errors import MessageRefused
from sottovoce.wire.limits import MAX_CREDENTIAL_BYTES, MAX_PARAMETERS
from sottovoce.wire.packed import put_numbers, take_numbers
from sottovoce.wire.v1 import contributions_pb2

_LARGEST_STEPS = 2**62
_MAX = 1024 + 1  # the largest number of contributors that can be configured, plus the sender
_SIGNATURE_BYTES = 64


def to_bytes(message: Contributions) -> bytes:
    """Encode a message; see PayloadCodec.to_bytes."""
    held = sorted(message.steps.items())
    return contributions_pb2.Contributions(
        ranks=[at for at, _ in held],
        steps=[steps for _, steps in held],
        contributions=to_wire(message.contributions),
    ).SerializeToString(deterministic=True)


def from_bytes(payload: bytes) -> Contributions:
    """Decode a message; see PayloadCodec.from_bytes."""
    said = contributions_pb2.Contributions.FromString(payload)
    if len(said.ranks) != len(said.steps) or max(len(said.ranks), len(said.contributions)) > _MAX:
        raise MessageRefused("shape", "the ranks and steps do not match, or there are too many of them")
    if len({one.owner for one in said.contributions}) < len(said.contributions):
        raise MessageRefused("shape", "the message has two contributions from the same device")
    if sum(one.size for one in said.contributions) > MAX_PARAMETERS:
        raise MessageRefused("shape", f"the contributions in the message have more than {MAX_PARAMETERS} numbers")
    return Contributions(dict(zip(said.ranks, said.steps, strict=True)), from_wire(said.contributions))


def check(message: Contributions) -> None:
    """Check that the values in a message are in range; see PayloadCodec.check."""
    if max(message.steps.values(), default=0) > _LARGEST_STEPS:
        raise MessageRefused("range", "the number of steps is too large")
    for one in message.contributions:
        if not 1 <= one.steps <= _LARGEST_STEPS:
            raise MessageRefused("range", "a contribution has no steps or too many")
        if one.numerator.min() < -MAX_NUMERATOR or one.numerator.max() > MAX_NUMERATOR:
            raise MessageRefused("range", "a value in a contribution exceeds 2^60 in units of 2^-40")


def to_wire(contributions: Iterable[Contribution]) -> list[contributions_pb2.Contribution]:
    """Pack contributions into protobuf messages."""
    found = []
    for one in contributions:
        packed = contributions_pb2.Contribution(
            owner=one.owner, credential=one.credential, steps=one.steps, signature=one.signature
        )
        put_numbers(packed, one.numerator)
        found.append(packed)
    return found


def from_wire(packed: Iterable[contributions_pb2.Contribution]) -> tuple[Contribution, ...]:
    """Unpack contributions. Their arrays are read-only, and their signatures are not verified yet.

    Raises:
        MessageRefused: with the reason `shape`, `malformed` or `range`.
    """
    found = []
    for one in packed:
        if len(one.credential) > MAX_CREDENTIAL_BYTES or len(one.signature) != _SIGNATURE_BYTES:
            raise MessageRefused(
                "range", "a contribution has an incomplete signature, or a certificate that is too large"
            )
        numerator = take_numbers(one)
        numerator.setflags(write=False)
        found.append(Contribution(one.owner, one.steps, numerator, one.credential, one.signature))
    return tuple(found)
