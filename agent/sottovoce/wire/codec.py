"""Messages of learners to and from the payload of an envelope."""

from collections.abc import Callable

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from sottovoce.errors import InternalError, MessageRefused, PrivacyError
from sottovoce.learners.messages import (
    MAX_NUMERATOR,
    MAX_WEIGHT,
    GolfMessage,
    GradientWalkMessage,
    Message,
    PushSumShare,
)
from sottovoce.learners.published import Holding
from sottovoce.wire.limits import MAX_PARAMETERS
from sottovoce.wire.published import from_wire, to_wire
from sottovoce.wire.v1 import envelope_pb2, golf_pb2, gradient_walk_pb2

_PUSH_SUM_SHARE = "push-sum-share/1"
_GOLF_MESSAGE = "golf-message/1"
_GRADIENT_WALK_MESSAGE = "gradient-walk-message/1"
_ENCODED = np.dtype("<i8")
_PARAMETER = np.dtype("<f4")
_LARGEST_AGE = 2**53
_OUTCOMES = {False: envelope_pb2.Receipt.OUTCOME_APPLIED, True: envelope_pb2.Receipt.OUTCOME_DUPLICATE}


def encode(message: Message) -> tuple[str, bytes]:
    """Encodes a message as (payload type, payload).

    Raises:
        PrivacyError: it stems from a simulation's seeded noise, which protects nobody.
        InternalError: it is beyond the limits by which every peer refuses it.
    """
    if message.simulated:
        raise PrivacyError("simulated noise protects nobody and never leaves this process: use the device's randomness")
    try:
        _check(message)
    except MessageRefused as error:
        raise InternalError(f"encoded what every peer refuses ({error}): report this defect") from error
    if isinstance(message, GolfMessage):
        golf = golf_pb2.GolfMessage(
            parameters=message.parameters.astype(_PARAMETER).tobytes(),
            age=message.age,
            holding_count=message.holding.count,
            holding_checksum=message.holding.checksum,
            records=to_wire(message.records),
        )
        return _GOLF_MESSAGE, golf.SerializeToString(deterministic=True)
    if isinstance(message, GradientWalkMessage):
        walk = gradient_walk_pb2.GradientWalkMessage(
            parameters=message.parameters.astype(_PARAMETER).tobytes(), age=message.age
        )
        return _GRADIENT_WALK_MESSAGE, walk.SerializeToString(deterministic=True)
    share = envelope_pb2.PushSumShare(numerator=message.numerator.astype(_ENCODED).tobytes(), weight=message.weight)
    return _PUSH_SUM_SHARE, share.SerializeToString(deterministic=True)


def decode(payload_type: str, payload: bytes) -> Message:
    """Decodes the payload of a verified envelope; the arrays of the message are read-only.

    Raises:
        MessageRefused: for `type` (unknown here), `malformed`, `shape` (no whole number of parameters, none, or too
            many) or `range` (a number is beyond its limit).
    """
    decoders: dict[str, Callable[[bytes], Message]] = {
        _PUSH_SUM_SHARE: _push_sum_share,
        _GOLF_MESSAGE: _golf_message,
        _GRADIENT_WALK_MESSAGE: _gradient_walk_message,
    }
    if payload_type not in decoders:
        raise MessageRefused("type", "the payload is of a type that this version does not know")
    try:
        message = decoders[payload_type](payload)
    except DecodeError as error:
        raise MessageRefused("malformed", "the payload is not a protobuf message of its type") from error
    _check(message)
    return message


def encode_receipt(duplicate: bool) -> bytes:
    """Encodes the answer to an envelope whose effect is durable."""
    return envelope_pb2.Receipt(outcome=_OUTCOMES[duplicate]).SerializeToString(deterministic=True)


def decode_receipt(raw: bytes) -> bool:
    """Whether the recipient had applied the envelope before.

    Raises:
        MessageRefused: for `malformed`: it says neither that nor that it was applied now.
    """
    try:
        outcome = envelope_pb2.Receipt.FromString(raw).outcome
    except DecodeError as error:
        raise MessageRefused("malformed", "the receipt is not a protobuf message of its kind") from error
    if outcome not in _OUTCOMES.values():
        raise MessageRefused("malformed", "the receipt has no outcome that this version knows")
    return outcome == envelope_pb2.Receipt.OUTCOME_DUPLICATE


def _push_sum_share(payload: bytes) -> PushSumShare:
    share = envelope_pb2.PushSumShare.FromString(payload)
    if len(share.numerator) % _ENCODED.itemsize:
        raise MessageRefused("shape", "the numerator is not a whole number of parameters")
    numerator = np.frombuffer(share.numerator, dtype=_ENCODED).astype(np.int64)
    numerator.setflags(write=False)
    return PushSumShare(numerator=numerator, weight=share.weight)


def _golf_message(payload: bytes) -> GolfMessage:
    golf = golf_pb2.GolfMessage.FromString(payload)
    holding = Holding(golf.holding_count, golf.holding_checksum)
    return GolfMessage(_model(golf.parameters), golf.age, holding, from_wire(golf.records))


def _gradient_walk_message(payload: bytes) -> GradientWalkMessage:
    walk = gradient_walk_pb2.GradientWalkMessage.FromString(payload)
    return GradientWalkMessage(_model(walk.parameters), walk.age)


def _model(raw: bytes) -> NDArray[np.float32]:
    if len(raw) % _PARAMETER.itemsize:
        raise MessageRefused("shape", "the model is not a whole number of parameters")
    parameters = np.frombuffer(raw, dtype=_PARAMETER).astype(np.float32)
    parameters.setflags(write=False)
    return parameters


def _check(message: Message) -> None:
    if isinstance(message, PushSumShare):
        _check_share(message)
    elif isinstance(message, GolfMessage):
        _check_model(message.parameters, message.age, least=0)
        if message.holding.count > _LARGEST_AGE:
            raise MessageRefused("range", "the number of records is beyond its limit")
    else:
        _check_model(message.parameters, message.age, least=1)


def _check_model(parameters: NDArray[np.float32], age: int, least: int) -> None:
    if parameters.ndim != 1 or not least <= parameters.size <= MAX_PARAMETERS:
        raise MessageRefused(
            "shape", f"the model has a shape of {parameters.shape}, not of {least} to {MAX_PARAMETERS}"
        )
    if not np.isfinite(parameters).all():
        raise MessageRefused("range", "the model holds what is not a number")
    if not 0 <= age <= _LARGEST_AGE:
        raise MessageRefused("range", "the age of the model is beyond its limit")


def _check_share(share: PushSumShare) -> None:
    numerator = share.numerator
    if numerator.ndim != 1 or not 1 <= numerator.size <= MAX_PARAMETERS:
        raise MessageRefused("shape", f"the numerator has a shape of {numerator.shape}, not of 1 to {MAX_PARAMETERS}")
    if numerator.min() < -MAX_NUMERATOR or numerator.max() > MAX_NUMERATOR:
        raise MessageRefused("range", "a numerator is beyond 2^60 in units of 2^-40")
    if not 0 < share.weight <= MAX_WEIGHT:
        raise MessageRefused("range", "the weight is not in (0, 4]")
