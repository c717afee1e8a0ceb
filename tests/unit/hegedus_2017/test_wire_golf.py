"""Golf messages on the wire: unchanged, or refused with a reason."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st
from sottovoce.errors import InternalError, MessageRefused, PrivacyError
from sottovoce.learning.learners import Holding, Perturbation, PublishedRecord
from sottovoce.net.wire import decode, encode
from sottovoce.net.wire.arrays import MAX_CREDENTIAL_BYTES, MAX_RECORDS
from sottovoce.net.wire.v1 import golf_pb2
from sottovoce_papers.hegedus_2017.golf.public.messages import GolfMessage

TYPE = "golf-message/1"

perturbations = st.builds(
    Perturbation,
    st.sampled_from(["privunit", "laplace", "krr-privunit"]),
    st.integers(1, 500_000),
    st.integers(2, 1000),
    st.none() | st.floats(1e-3, 500),
)
records = st.builds(
    PublishedRecord,
    st.text("abcdefgh234567", min_size=1, max_size=32),
    st.integers(0, 2**62),
    perturbations,
    st.lists(st.integers(-(2**53), 2**53), max_size=6).map(lambda values: np.array(values, dtype=np.int64)),
    st.binary(max_size=40),
    st.binary(min_size=64, max_size=64),
)
messages = st.builds(
    GolfMessage,
    st.lists(st.floats(-(2.0**100), 2.0**100, width=32), max_size=6).map(lambda values: np.array(values, np.float32)),
    st.integers(0, 2**53),
    st.builds(Holding, st.integers(0, 2**40), st.integers(0, 2**64 - 1)),
    st.lists(records, max_size=5).map(tuple),
)


def facts(message: GolfMessage) -> tuple[object, ...]:
    carried = [
        (record.key, record.perturbation, record.values.tolist(), record.credential, record.signature)
        for record in message.records
    ]
    return message.parameters.tolist(), message.age, message.holding, sorted(carried, key=repr)


@given(messages)
def test_every_message_arrives_as_it_was_sent(message: GolfMessage) -> None:
    payload_type, payload = encode(message)
    arrived = decode(payload_type, payload)
    assert payload_type == TYPE
    assert isinstance(arrived, GolfMessage)
    assert facts(arrived) == facts(message)
    assert not arrived.simulated


@given(st.binary(max_size=300))
def test_arbitrary_bytes_are_a_message_or_refused(payload: bytes) -> None:
    try:
        assert isinstance(decode(TYPE, payload), GolfMessage)
    except MessageRefused as refusal:
        assert refusal.reason in {"malformed", "shape", "range"}  # noqa: PT017


def test_a_message_s_arrays_are_read_only() -> None:
    record = PublishedRecord("a", 0, Perturbation("privunit", 2, 2, 1.0), np.array([1, 2]), b"", bytes(64))
    arrived = decode(*encode(GolfMessage(np.zeros(2, dtype=np.float32), 0, Holding(), (record,))))
    assert isinstance(arrived, GolfMessage)
    for array in (arrived.parameters, arrived.records[0].values):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_simulated_noise_never_leaves() -> None:
    with pytest.raises(PrivacyError, match="simulated"):
        encode(GolfMessage(np.zeros(2, dtype=np.float32), 0, Holding(), (), simulated=True))


def test_non_finite_values_are_never_encoded() -> None:
    with pytest.raises(InternalError):
        encode(GolfMessage(np.array([np.nan], dtype=np.float32), 0, Holding()))


def _raw(**changes: object) -> bytes:
    group = golf_pb2.PublishedRecords(owner="a", credential=b"c")
    group.perturbation.scheme, group.perturbation.features, group.perturbation.classes = "privunit", 2, 2
    group.perturbation.epsilon = 1.0
    group.records.add(slot=0, values=[1, 2], signature=bytes(64))
    for name, value in changes.items():
        if name in ("features", "classes", "epsilon"):
            setattr(group.perturbation, name, value)
        elif name == "credential":
            group.credential = value  # type: ignore[assignment]
        elif name == "values":
            group.records[0].values[:] = value  # type: ignore[call-overload]
        else:
            setattr(group.records[0], name, value)
    return golf_pb2.GolfMessage(records=[group]).SerializeToString()


@pytest.mark.parametrize(
    "changes",
    [
        {"features": 0},
        {"classes": 1},
        {"classes": 2**31},
        {"epsilon": 0.0},
        {"epsilon": -1.0},
        {"epsilon": float("nan")},
        {"epsilon": float("inf")},
        {"signature": bytes(63)},
        {"slot": 2**63},
        {"values": [2**53 + 1]},
        {"values": [-(2**63)]},
        {"credential": bytes(MAX_CREDENTIAL_BYTES + 1)},
    ],
)
def test_a_record_beyond_its_limits_is_refused(changes: dict[str, object]) -> None:
    assert isinstance(decode(TYPE, _raw()), GolfMessage)
    with pytest.raises(MessageRefused) as exc_info:
        decode(TYPE, _raw(**changes))
    assert exc_info.value.reason == "range"


def test_too_many_records_are_refused() -> None:
    group = golf_pb2.PublishedRecords.FromString(golf_pb2.GolfMessage.FromString(_raw()).records[0].SerializeToString())
    one = group.records[0]
    group.records.extend([one] * MAX_RECORDS)
    with pytest.raises(MessageRefused, match="more than"):
        decode(TYPE, golf_pb2.GolfMessage(records=[group]).SerializeToString())


def test_a_model_without_a_whole_number_of_parameters_is_refused() -> None:
    for parameters, reason in ((bytes(5), "shape"), (np.array([np.inf], dtype="<f4").tobytes(), "range")):
        with pytest.raises(MessageRefused) as exc_info:
            decode(TYPE, golf_pb2.GolfMessage(parameters=parameters).SerializeToString())
        assert exc_info.value.reason == reason


def test_one_owner_s_records_share_a_credential() -> None:
    record = PublishedRecord("a", 0, Perturbation("privunit", 2, 2, 1.0), np.array([1, 2]), bytes(1000), bytes(64))
    many = tuple(replace(record, slot=slot) for slot in range(10))
    assert len(encode(GolfMessage(np.zeros(0, dtype=np.float32), 0, Holding(), many))[1]) < 2000
