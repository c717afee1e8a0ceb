"""Messages of learners in rounds on the wire: unchanged, or refused with a reason."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from sottovoce.algorithms.rounds.public import RoundMessage
from sottovoce.errors import InternalError, MessageRefused, PrivacyError
from sottovoce.net.wire import MAX_PARAMETERS, decode, encode
from sottovoce.net.wire.v1 import rounds_pb2

TYPE = "round-message/1"

messages = st.builds(
    lambda turn, phase, degree, rows, size: RoundMessage(
        turn, phase, degree, np.random.default_rng(size).normal(size=(rows, size)).astype(np.float32)
    ),
    st.integers(0, 2**53),
    st.integers(0, 2**10 - 1),
    st.integers(1, 2**20),
    st.integers(1, 2),
    st.integers(1, 9),
)


@given(messages)
def test_every_message_arrives_as_it_was_sent(message: RoundMessage) -> None:
    payload_type, payload = encode(message)
    arrived = decode(payload_type, payload)
    assert payload_type == TYPE
    assert isinstance(arrived, RoundMessage)
    assert arrived.traced() == message.traced()
    with pytest.raises(ValueError, match="read-only"):
        arrived.vectors[0, 0] = 1


def test_a_message_without_a_vector_says_so() -> None:
    arrived = decode(*encode(RoundMessage(3, 1, 2, np.empty((0, 7), dtype=np.float32))))
    assert isinstance(arrived, RoundMessage)
    assert len(arrived.vectors) == 0


def test_two_vectors_of_the_longest_model_fit() -> None:
    _, payload = encode(RoundMessage(0, 0, 1, np.ones((2, MAX_PARAMETERS), dtype=np.float32)))
    assert isinstance(decode(TYPE, payload), RoundMessage)


@given(st.binary(max_size=300))
def test_arbitrary_bytes_are_a_message_or_refused(payload: bytes) -> None:
    try:
        assert isinstance(decode(TYPE, payload), RoundMessage)
    except MessageRefused as refusal:
        assert refusal.reason in {"malformed", "shape", "range"}  # noqa: PT017


@pytest.mark.parametrize(
    "vectors, turn, phase, degree, reason",
    [
        ([b"abc"], 0, 0, 1, "shape"),
        ([b"", b""], 0, 0, 1, "shape"),
        ([bytes(4), bytes(8)], 0, 0, 1, "shape"),
        ([bytes(4)] * 3, 0, 0, 1, "shape"),
        ([bytes(4 * MAX_PARAMETERS + 4)], 0, 0, 1, "shape"),
        ([np.float32(np.nan).tobytes()], 0, 0, 1, "range"),
        ([np.float32(np.inf).tobytes()], 0, 0, 1, "range"),
        ([bytes(4)], 2**53 + 1, 0, 1, "range"),
        ([bytes(4)], 0, 2**10, 1, "range"),
        ([bytes(4)], 0, 0, 0, "range"),
        ([bytes(4)], 0, 0, 2**20 + 1, "range"),
    ],
)
def test_impossible_messages_are_refused(vectors: list[bytes], turn: int, phase: int, degree: int, reason: str) -> None:
    payload = rounds_pb2.RoundMessage(round=turn, phase=phase, degree=degree, vectors=vectors).SerializeToString()
    with pytest.raises(MessageRefused) as exc_info:
        decode(TYPE, payload)
    assert exc_info.value.reason == reason


def test_unsendable_content_is_never_encoded() -> None:
    vectors = np.zeros((1, 2), dtype=np.float32)
    with pytest.raises(PrivacyError, match="simulated"):
        encode(RoundMessage(0, 0, 1, vectors, simulated=True))
    with pytest.raises(InternalError):
        encode(RoundMessage(0, 0, 0, vectors))
