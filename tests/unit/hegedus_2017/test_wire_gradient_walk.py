"""Walking models on the wire: unchanged, or refused with a reason."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from sottovoce.errors import InternalError, MessageRefused, PrivacyError
from sottovoce.net.wire import MAX_PARAMETERS, decode, encode
from sottovoce.net.wire.v1 import gradient_walk_pb2
from sottovoce_papers.hegedus_2017.gradient_walk.public.messages import GradientWalkMessage

TYPE = "gradient-walk-message/1"

messages = st.builds(
    GradientWalkMessage,
    st.lists(st.floats(-(2.0**100), 2.0**100, width=32), min_size=1, max_size=9).map(
        lambda values: np.array(values, dtype=np.float32)
    ),
    st.integers(0, 2**53),
)


def walk(*parameters: float, age: int = 0, simulated: bool = False) -> GradientWalkMessage:
    return GradientWalkMessage(np.array(parameters, dtype=np.float32), age, simulated)


@given(messages)
def test_every_message_arrives_as_it_was_sent(message: GradientWalkMessage) -> None:
    payload_type, payload = encode(message)
    arrived = decode(payload_type, payload)
    assert payload_type == TYPE
    assert isinstance(arrived, GradientWalkMessage)
    assert (arrived.parameters.tolist(), arrived.age) == (message.parameters.tolist(), message.age)
    assert not arrived.simulated
    with pytest.raises(ValueError, match="read-only"):
        arrived.parameters[0] = 1


@given(st.binary(max_size=300))
def test_arbitrary_bytes_are_a_message_or_refused(payload: bytes) -> None:
    try:
        assert isinstance(decode(TYPE, payload), GradientWalkMessage)
    except MessageRefused as refusal:
        assert refusal.reason in {"malformed", "shape", "range"}  # noqa: PT017


@pytest.mark.parametrize(
    "parameters, age, reason",
    [
        (b"", 0, "shape"),
        (bytes(5), 0, "shape"),
        (bytes(4 * (MAX_PARAMETERS + 1)), 0, "shape"),
        (np.array([np.inf], dtype="<f4").tobytes(), 0, "range"),
        (np.array([np.nan], dtype="<f4").tobytes(), 0, "range"),
        (bytes(4), 2**53 + 1, "range"),
    ],
)
def test_values_beyond_a_limit_are_refused(parameters: bytes, age: int, reason: str) -> None:
    payload = gradient_walk_pb2.GradientWalkMessage(parameters=parameters, age=age).SerializeToString()
    with pytest.raises(MessageRefused) as exc_info:
        decode(TYPE, payload)
    assert exc_info.value.reason == reason


def test_simulated_noise_never_leaves() -> None:
    with pytest.raises(PrivacyError, match="simulated"):
        encode(walk(1.0, simulated=True))


@pytest.mark.parametrize("message", [walk(), walk(float("nan")), walk(1.0, age=-1), walk(1.0, age=2**53 + 1)])
def test_unacceptable_messages_are_never_encoded(message: GradientWalkMessage) -> None:
    with pytest.raises(InternalError):
        encode(message)
