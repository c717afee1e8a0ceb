"""Codec for contributions, in messages and in a device's durable state."""

from collections.abc import Iterable

from sottovoce.algorithms.contributions.public.machine import Mixer
from sottovoce.algorithms.contributions.public.state import Contribution, Contributions, ContributionsState, rank
from sottovoce.algorithms.state_codec import ModelSizeMismatch
from sottovoce.algorithms.steps.public.descent import MAX_NUMERATOR
from sottovoce.errors import MessageRefused
from sottovoce.net.wire.arrays import MAX_CREDENTIAL_BYTES, MAX_PARAMETERS
from sottovoce.net.wire.packed import read_numbers, write_numbers
from sottovoce.net.wire.v1 import contributions_pb2

_MAX_STEPS = 2**62
_MAX_CONTRIBUTIONS = 1024 + 1  # the largest number of contributors that can be configured, plus the sender
_SIGNATURE_BYTES = 64


def to_bytes(message: Contributions) -> bytes:
    """Encode a message; see PayloadCodec.to_bytes."""
    steps_by_rank = sorted(message.steps.items())
    return contributions_pb2.Contributions(
        ranks=[owner_rank for owner_rank, _ in steps_by_rank],
        steps=[steps for _, steps in steps_by_rank],
        contributions=to_wire(message.contributions),
    ).SerializeToString(deterministic=True)


def from_bytes(payload: bytes) -> Contributions:
    """Decode a message; see PayloadCodec.from_bytes."""
    packed = contributions_pb2.Contributions.FromString(payload)
    if len(packed.ranks) != len(packed.steps) or max(len(packed.ranks), len(packed.contributions)) > _MAX_CONTRIBUTIONS:
        raise MessageRefused("shape", "the ranks and steps do not match, or there are too many of them")
    if len({contribution.owner for contribution in packed.contributions}) < len(packed.contributions):
        raise MessageRefused("shape", "the message contains two contributions from the same device")
    if sum(contribution.size for contribution in packed.contributions) > MAX_PARAMETERS:
        raise MessageRefused("shape", f"the contributions in the message contain more than {MAX_PARAMETERS} values")
    return Contributions(dict(zip(packed.ranks, packed.steps, strict=True)), from_wire(packed.contributions))


def check(message: Contributions) -> None:
    """Check that the values in a message are in range; see PayloadCodec.check."""
    if max(message.steps.values(), default=0) > _MAX_STEPS:
        raise MessageRefused("range", "the number of steps is too large")
    for contribution in message.contributions:
        if not 1 <= contribution.steps <= _MAX_STEPS:
            raise MessageRefused("range", "a contribution has no steps or too many")
        if contribution.numerator.min() < -MAX_NUMERATOR or contribution.numerator.max() > MAX_NUMERATOR:
            raise MessageRefused("range", "a value in a contribution exceeds 2^60 in units of 2^-40")


def to_wire(contributions: Iterable[Contribution]) -> list[contributions_pb2.Contribution]:
    """Pack contributions into protobuf messages."""
    messages = []
    for contribution in contributions:
        message = contributions_pb2.Contribution(
            owner=contribution.owner,
            credential=contribution.credential,
            steps=contribution.steps,
            signature=contribution.signature,
        )
        write_numbers(message, contribution.numerator)
        messages.append(message)
    return messages


def from_wire(packed: Iterable[contributions_pb2.Contribution]) -> tuple[Contribution, ...]:
    """Unpack contributions. Their arrays are read-only, and their signatures are not verified yet.

    Raises:
        MessageRefused: with the reason `shape`, `malformed` or `range`.
    """
    contributions = []
    for message in packed:
        if len(message.credential) > MAX_CREDENTIAL_BYTES or len(message.signature) != _SIGNATURE_BYTES:
            raise MessageRefused(
                "range", "a contribution has an incomplete signature, or a certificate that is too large"
            )
        numerator = read_numbers(message)
        numerator.setflags(write=False)
        contributions.append(
            Contribution(message.owner, message.steps, numerator, message.credential, message.signature)
        )
    return tuple(contributions)


class ContributionsCodec:
    """State codec for devices that mix contributions; implements StateCodec."""

    def __init__(self, learner: Mixer) -> None:
        self._learner = learner
        self._size = learner.schedule.width

    def encode(self, state: ContributionsState) -> bytes:
        """Encode the durable part of the state; see StateCodec.encode."""
        saved = contributions_pb2.ContributionsState(
            cycle=state.cycle,
            step=state.step,
            variation=state.variation,
            exhausted=state.exhausted,
            turn=state.turn,
            held=to_wire(
                contribution for _, contribution in sorted({**state.frozen_contributions, **state.held}.items())
            ),
        )
        write_numbers(saved, state.numerator)
        return saved.SerializeToString()

    def decode(self, raw: bytes) -> ContributionsState:
        """Decode a state; see StateCodec.decode. If the mixing has changed, start over from the ledger's releases."""
        saved = contributions_pb2.ContributionsState.FromString(raw)
        if not saved.size:
            return self._learner.initial_state()
        try:
            numerator, contributions = read_numbers(saved), from_wire(saved.held)
        except MessageRefused as error:
            raise ValueError(f"the contributions are invalid: {error}") from error
        for numbers in (numerator, *(contribution.numerator for contribution in contributions)):
            if numbers.size != self._size:
                raise ModelSizeMismatch(numbers.size, self._size)
        return ContributionsState(
            numerator=numerator,
            held={rank(contribution.owner): contribution for contribution in contributions},
            cycle=saved.cycle,
            step=saved.step,
            variation=saved.variation,
            exhausted=saved.exhausted,
            turn=saved.turn,
        )
