"""Codec for contributions, in messages and in a device's durable state."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from sottovoce.algorithms.contributions.public.machine import Mixer
from sottovoce.algorithms.contributions.public.state import (
    Change,
    Contribution,
    Contributions,
    ContributionsState,
    rank,
)
from sottovoce.algorithms.state_codec import ModelSizeMismatch
from sottovoce.algorithms.steps.public.descent import is_in_range
from sottovoce.errors import MessageRefused
from sottovoce.net.wire.arrays import MAX_CREDENTIAL_BYTES, MAX_PARAMETERS
from sottovoce.net.wire.coded import CodedIntegers, code, decode_integers
from sottovoce.net.wire.packed import read_numbers, write_numbers
from sottovoce.net.wire.v1 import contributions_pb2

_MAX_STEPS = 2**62
_MAX_CONTRIBUTIONS = 1024 + 1  # the largest number of contributors that can be configured, plus the sender
_SIGNATURE_BYTES = 64
_Integers = NDArray[np.int64]


def to_bytes(message: Contributions) -> bytes:
    """Encode a message; see PayloadCodec.to_bytes."""
    steps_by_rank = sorted(message.steps.items())
    return contributions_pb2.Contributions(
        ranks=[owner_rank for owner_rank, _ in steps_by_rank],
        steps=[steps for _, steps in steps_by_rank],
        contributions=to_wire(message.contributions),
        certificates=[checksum for _, checksum in sorted(message.certificates.items())],
        holdings=message.holdings,
        ordered_steps=message.ordered_steps,
        changes=[_change_to_wire(change) for change in message.changes],
    ).SerializeToString(deterministic=True)


def from_bytes(payload: bytes) -> Contributions:
    """Decode a message; see PayloadCodec.from_bytes."""
    packed = contributions_pb2.Contributions.FromString(payload)
    if len(packed.certificates) not in (0, len(packed.ranks)):
        raise MessageRefused("shape", "the ranks and the certificates' checksums do not match")
    if len(packed.ranks) != len(packed.steps) or max(len(packed.ranks), len(packed.contributions)) > _MAX_CONTRIBUTIONS:
        raise MessageRefused("shape", "the ranks and steps do not match, or there are too many of them")
    if max(len(packed.ordered_steps), len(packed.changes)) > _MAX_CONTRIBUTIONS:
        raise MessageRefused("shape", "there are too many steps or changes")
    if len({contribution.owner for contribution in packed.contributions}) < len(packed.contributions):
        raise MessageRefused("shape", "the message contains two contributions from the same device")
    if len({change.rank for change in packed.changes}) < len(packed.changes):
        raise MessageRefused("shape", "the message contains two changes from the same device")
    sizes = [contribution.size + contribution.record_sum.size for contribution in packed.contributions]
    if sum(sizes) + sum(change.size for change in packed.changes) > MAX_PARAMETERS:
        raise MessageRefused("shape", f"the contributions in the message contain more than {MAX_PARAMETERS} values")
    return Contributions(
        dict(zip(packed.ranks, packed.steps, strict=True)),
        from_wire(packed.contributions),
        dict(zip(packed.ranks, packed.certificates, strict=False)),  # none in messages of earlier versions
        tuple(_change_from_wire(change) for change in packed.changes),
        packed.holdings,
        tuple(packed.ordered_steps),
    )


def check(message: Contributions) -> None:
    """Check that the values in a message are in range; see PayloadCodec.check."""
    if max((*message.steps.values(), *message.ordered_steps), default=0) > _MAX_STEPS:
        raise MessageRefused("range", "the number of steps is too large")
    for contribution in message.contributions:
        if not 1 <= contribution.steps <= _MAX_STEPS:
            raise MessageRefused("range", "a contribution has no steps or too many")
        for numbers in (contribution.numerator, contribution.record_sum):
            if numbers is not None and not is_in_range(numbers):
                raise MessageRefused("range", "a value in a contribution exceeds 2^60 in units of 2^-40")
    for change in message.changes:
        if not 1 <= change.base < change.steps <= _MAX_STEPS:
            raise MessageRefused("range", "a change adds no steps, or too many")


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
        if contribution.record_sum is not None:
            write_numbers(message.record_sum, contribution.record_sum)
        messages.append(message)
    return messages


def _change_to_wire(change: Change) -> contributions_pb2.Change:
    coded = code(change.difference)
    return contributions_pb2.Change(
        rank=change.owner_rank,
        base=change.base,
        steps=change.steps,
        size=coded.size,
        shift=coded.shift,
        low=coded.low,
        coded=coded.data,
        signature=change.signature,
        credential=change.credential,
    )


def _change_from_wire(message: contributions_pb2.Change) -> Change:
    """Unpack a change; see from_wire."""
    _check_signed(message, "change")
    difference = decode_integers(CodedIntegers(message.size, message.shift, message.low, message.coded))
    return Change(
        message.rank, message.base, message.steps, _read_only(difference), message.credential, message.signature
    )


def from_wire(packed: Iterable[contributions_pb2.Contribution]) -> tuple[Contribution, ...]:
    """Unpack contributions. Their arrays are read-only, and their signatures are not verified yet.

    Raises:
        MessageRefused: with the reason `shape`, `malformed` or `range`.
    """
    contributions = []
    for message in packed:
        _check_signed(message, "contribution")
        contributions.append(
            Contribution(
                message.owner,
                message.steps,
                _read_only(read_numbers(message)),
                message.credential,
                message.signature,
                record_sum=_read_sum(message),
            )
        )
    return tuple(contributions)


def _check_signed(message: contributions_pb2.Contribution | contributions_pb2.Change, what: str) -> None:
    if len(message.credential) > MAX_CREDENTIAL_BYTES or len(message.signature) != _SIGNATURE_BYTES:
        raise MessageRefused("range", f"a {what} has an incomplete signature, or a certificate that is too large")


def _read_sum(message: contributions_pb2.Contribution | contributions_pb2.ContributionsState) -> _Integers | None:
    """Return the sum of records in a message, or None if it has none."""
    return _read_only(read_numbers(message.record_sum)) if message.HasField("record_sum") else None


def _read_only(numbers: _Integers) -> _Integers:
    numbers.setflags(write=False)
    return numbers


class ContributionsCodec:
    """State codec for devices that mix contributions; implements StateCodec."""

    def __init__(self, learner: Mixer) -> None:
        self._learner = learner
        self._size = learner.schedule.width
        self._columns = None if learner.shared_mean is None else learner.shared_mean.columns

    def encode(self, state: ContributionsState) -> bytes:
        """Encode the durable part of the state; see StateCodec.encode."""
        return b"".join(self.encode_parts(state).values())

    def encode_parts(self, state: ContributionsState) -> dict[str, bytes]:
        """Encode the device's own sum, and each contribution by its owner; see PartsCodec.

        Protocol Buffers merge messages that follow one another.
        """
        saved = contributions_pb2.ContributionsState(
            cycle=state.cycle,
            step=state.step,
            variation=state.variation,
            exhausted=state.exhausted,
            turn=state.turn,
            learnt=state.last_used_window,
            mean_cycle=state.mean_cycle,
            mean=None if state.mean is None else state.mean.tolist(),
        )
        write_numbers(saved, state.numerator)
        if state.record_sum is not None:
            write_numbers(saved.record_sum, state.record_sum)
        held = sorted({**state.frozen_contributions, **state.held}.items())
        return {"": saved.SerializeToString()} | {
            contribution.owner: contributions_pb2.ContributionsState(held=to_wire([contribution])).SerializeToString()
            for _, contribution in held
        }

    def decode(self, raw: bytes) -> ContributionsState:
        """Decode a state; see StateCodec.decode. If the mixing has changed, start over from the ledger's releases."""
        saved = contributions_pb2.ContributionsState.FromString(raw)
        if not saved.size:
            return self._learner.initial_state()
        try:
            numerator, contributions = read_numbers(saved), from_wire(saved.held)
            record_sum = _read_sum(saved)
        except MessageRefused as error:
            raise ValueError(f"the contributions are invalid: {error}") from error
        for numbers in (numerator, *(contribution.numerator for contribution in contributions)):
            if numbers.size != self._size:
                raise ModelSizeMismatch(numbers.size, self._size)
        mean = np.array(saved.mean) if saved.mean else None
        if (mean is not None and mean.size + 1 != self._columns) or (
            record_sum is not None and record_sum.size != self._columns
        ):
            raise ValueError("the state contains a mean of records for another task")
        return ContributionsState(
            numerator=numerator,
            held={rank(contribution.owner): contribution for contribution in contributions},
            cycle=saved.cycle,
            step=saved.step,
            record_sum=record_sum,
            mean_cycle=saved.mean_cycle if saved.HasField("mean_cycle") else None,
            mean=mean,
            variation=saved.variation,
            exhausted=saved.exhausted,
            turn=saved.turn,
            last_used_window=saved.learnt if saved.HasField("learnt") else None,
        )
