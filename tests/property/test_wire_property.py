import contextlib

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sottovoce.algorithms.push_sum.public.messages import MAX_WEIGHT, PushSumShare
from sottovoce.algorithms.steps.public.descent import MAX_NUMERATOR
from sottovoce.errors import MessageRefused
from sottovoce.fleet import Identity
from sottovoce.net.wire import TASK_BYTES, Receipt, decode, decode_receipt, encode, seal, unseal
from sottovoce_operator.fleet import create_fleet, enrol

from tests.support.messages import as_push_sum_share

Devices = tuple[Identity, Identity]

shares = st.builds(
    lambda numbers, weight: PushSumShare(np.array(numbers, np.int64), weight),
    st.lists(st.integers(-MAX_NUMERATOR, MAX_NUMERATOR), min_size=1, max_size=50),
    st.integers(1, MAX_WEIGHT),
)
counters = st.integers(1, 2**64 - 1)


@pytest.fixture(scope="module")
def devices(tmp_path_factory: pytest.TempPathFactory) -> Devices:
    directory = tmp_path_factory.mktemp("fleet")
    fleet = create_fleet(directory / "authority", "fleet")
    return enrol(fleet, directory / "one"), enrol(fleet, directory / "two")


def _sealed(devices: Devices, share: PushSumShare, incarnation: int, sequence: int) -> bytes:
    sender, recipient = devices
    payload_type, payload = encode(share)
    return seal(
        sender,
        recipient=recipient.node_id,
        incarnation=incarnation,
        sequence=sequence,
        payload_type=payload_type,
        payload=payload,
        task=bytes(TASK_BYTES),
    )


def _receive(devices: Devices, raw: bytes) -> PushSumShare:
    opened = unseal(raw, fleet="fleet", recipient=devices[1].node_id)
    return as_push_sum_share(decode(opened.payload_type, opened.payload))


@given(share=shares, incarnation=st.integers(0, 2**64 - 1), sequence=counters)
def test_shares_survive_the_round_trip_unchanged(
    devices: Devices, share: PushSumShare, incarnation: int, sequence: int
) -> None:
    raw = _sealed(devices, share, incarnation, sequence)
    opened = unseal(raw, fleet="fleet", recipient=devices[1].node_id)
    assert (opened.sender, opened.incarnation, opened.sequence) == (devices[0].node_id, incarnation, sequence)
    received = as_push_sum_share(decode(opened.payload_type, opened.payload))
    assert np.array_equal(received.numerator, share.numerator)
    assert received.weight == share.weight


@settings(max_examples=10, deadline=None)
@given(share=shares, incarnation=counters, sequence=counters)
def test_flipping_any_bit_is_detected(devices: Devices, share: PushSumShare, incarnation: int, sequence: int) -> None:
    raw = _sealed(devices, share, incarnation, sequence)
    for bit in range(8 * len(raw)):
        altered = bytearray(raw)
        altered[bit // 8] ^= 1 << bit % 8
        with pytest.raises(MessageRefused):
            unseal(bytes(altered), fleet="fleet", recipient=devices[1].node_id)


@settings(max_examples=20)
@given(share=shares, extra=st.binary(min_size=1))
def test_truncation_and_padding_are_detected(devices: Devices, share: PushSumShare, extra: bytes) -> None:
    raw = _sealed(devices, share, 1, 1)
    for altered in (*(raw[:length] for length in range(len(raw))), raw + extra, extra + raw):
        with pytest.raises(MessageRefused):
            unseal(altered, fleet="fleet", recipient=devices[1].node_id)


@given(raw=st.binary(max_size=500))
def test_arbitrary_bytes_are_refused(devices: Devices, raw: bytes) -> None:
    with pytest.raises(MessageRefused):
        _receive(devices, raw)


@given(payload=st.binary(max_size=200))
def test_an_arbitrary_payload_is_a_share_within_limits_or_refused(payload: bytes) -> None:
    try:
        share = as_push_sum_share(decode("push-sum-share/1", payload))
    except MessageRefused:
        return
    assert 0 < share.weight <= MAX_WEIGHT
    assert share.numerator.size
    assert -MAX_NUMERATOR <= share.numerator.min() <= share.numerator.max() <= MAX_NUMERATOR


@given(raw=st.binary(max_size=20))
def test_an_arbitrary_receipt_is_an_answer_or_refused(raw: bytes) -> None:
    with contextlib.suppress(MessageRefused):
        assert isinstance(decode_receipt(raw), Receipt)
