"""Messages of a shared model on the wire: unchanged, or refused with a reason."""

import contextlib

import numpy as np
import pytest
from hypothesis import given, strategies as st
from sottovoce.errors import InternalError, MessageRefused, PrivacyError
from sottovoce.learning.learners import Message
from sottovoce.net.wire import MAX_PARAMETERS, decode, encode
from sottovoce.net.wire.v1 import shared_model_pb2
from sottovoce_papers.jin_2023.public.messages import (
    MAX_STEP,
    Head,
    HeadAnnouncement,
    ModelRequest,
    SharedModelMessage,
)

TYPE = "shared-model-message/1"
heads = st.builds(Head, st.integers(0, MAX_STEP), st.text(max_size=64))
models = st.lists(st.floats(-(2.0**100), 2.0**100, width=32), min_size=1, max_size=9).map(
    lambda values: np.array(values, dtype=np.float32)
)
messages: st.SearchStrategy[Message] = st.one_of(
    st.builds(HeadAnnouncement, heads), st.builds(ModelRequest), st.builds(SharedModelMessage, heads, models)
)


@given(messages)
def test_every_message_arrives_as_it_was_sent(message: Message) -> None:
    payload_type, payload = encode(message)
    arrived = decode(payload_type, payload)
    assert payload_type == TYPE
    assert type(arrived) is type(message)
    assert arrived.traced() == message.traced()
    assert not arrived.simulated
    if isinstance(arrived, SharedModelMessage):
        with pytest.raises(ValueError, match="read-only"):
            arrived.parameters[0] = 1


@given(st.binary(max_size=300))
def test_arbitrary_bytes_are_a_message_or_refused(payload: bytes) -> None:
    with contextlib.suppress(MessageRefused):
        assert encode(decode(TYPE, payload))[0] == TYPE


def test_an_announcement_has_two_numbers() -> None:
    assert len(encode(HeadAnnouncement(Head(120, "a" * 32)))[1]) <= 40
    assert HeadAnnouncement(Head(1, "a")).value_count == 2


@pytest.mark.parametrize(
    "message, reason",
    [
        (shared_model_pb2.SharedModelMessage(), "shape"),
        (shared_model_pb2.SharedModelMessage(model=shared_model_pb2.SharedModel(parameters=b"123")), "shape"),
        (shared_model_pb2.SharedModelMessage(model=shared_model_pb2.SharedModel()), "shape"),
        (
            shared_model_pb2.SharedModelMessage(
                model=shared_model_pb2.SharedModel(parameters=b"\0" * 4 * (MAX_PARAMETERS + 1))
            ),
            "shape",
        ),
        (
            shared_model_pb2.SharedModelMessage(
                model=shared_model_pb2.SharedModel(parameters=np.array([np.nan], dtype="<f4").tobytes())
            ),
            "range",
        ),
        (
            shared_model_pb2.SharedModelMessage(announced=shared_model_pb2.SharedModelHead(step=MAX_STEP + 1)),
            "range",
        ),
        (shared_model_pb2.SharedModelMessage(announced=shared_model_pb2.SharedModelHead(writer="x" * 65)), "range"),
    ],
)
def test_impossible_messages_are_refused(message: shared_model_pb2.SharedModelMessage, reason: str) -> None:
    with pytest.raises(MessageRefused) as exc_info:
        decode(TYPE, message.SerializeToString())
    assert exc_info.value.reason == reason


def test_simulated_noise_never_leaves() -> None:
    for message in (
        HeadAnnouncement(Head(1, "a"), simulated=True),
        SharedModelMessage(Head(1, "a"), np.zeros(2, dtype=np.float32), simulated=True),
    ):
        with pytest.raises(PrivacyError):
            encode(message)


def test_encoding_an_unacceptable_message_is_a_defect() -> None:
    with pytest.raises(InternalError):
        encode(HeadAnnouncement(Head(-1, "a")))
