import zlib

import numpy as np
import pytest
from msgspec import msgpack
from sottovoce.algorithms.cell.public.messages import RosterProposal
from sottovoce.algorithms.push_sum.public.messages import MAX_WEIGHT, PushSumShare
from sottovoce.algorithms.steps.public.descent import MAX_NUMERATOR
from sottovoce.errors import InternalError, MessageRefused, PrivacyError
from sottovoce.fleet import Identity
from sottovoce.net.wire import (
    TASK_BYTES,
    Receipt,
    codec as module,
    decode,
    decode_receipt,
    encode,
    encode_receipt,
    seal,
)
from sottovoce.net.wire.arrays import MAX_ENVELOPE_BYTES, MAX_PARAMETERS
from sottovoce.net.wire.v1 import envelope_pb2
from sottovoce.plugins import LEARNER, Plugin, attribution
from sottovoce.privacy.secure_sum.statements import Statement

from tests.support.messages import as_push_sum_share

TYPE = "push-sum-share/1"


def _payload(numerator: bytes, weight: int = 2**40) -> bytes:
    return envelope_pb2.PushSumShare(numerator=numerator, weight=weight).SerializeToString()


def _reason(payload: bytes, payload_type: str = TYPE) -> str:
    with pytest.raises(MessageRefused) as exc_info:
        decode(payload_type, payload)
    return exc_info.value.reason


def test_a_share_has_the_documented_form() -> None:
    payload_type, payload = encode(PushSumShare(np.array([1, -2]), 3))
    assert payload_type == TYPE
    share = envelope_pb2.PushSumShare.FromString(payload)
    assert (share.size, share.width, share.shift, share.packed) == (2, 2, 0, bytes([0b01_10_0000]))
    assert (share.numerator, share.weight) == (b"", 3)


def test_version_0_1_s_outgoing_messages_can_be_read() -> None:
    share = as_push_sum_share(decode(TYPE, _payload(b"\x01" + b"\x00" * 7 + b"\xfe" + b"\xff" * 7, 3)))
    assert (share.numerator.tolist(), share.weight) == ([1, -2], 3)


def test_a_big_endian_array_is_encoded_by_value() -> None:
    values = [1, -(2**40), 2**60]
    assert encode(PushSumShare(np.array(values, ">i8"), 1)) == encode(PushSumShare(np.array(values, "<i8"), 1))


def test_a_decoded_array_is_native_and_read_only() -> None:
    share = as_push_sum_share(decode(TYPE, _payload(bytes(range(16)))))
    assert share.numerator.dtype == np.int64
    assert share.numerator.dtype.isnative
    assert not share.simulated
    with pytest.raises(ValueError, match="read-only"):
        share.numerator[0] = 1


def test_simulated_noise_never_leaves() -> None:
    with pytest.raises(PrivacyError, match="simulated"):
        encode(PushSumShare(np.array([1]), 1, simulated=True))


def test_each_refusal_has_its_reason() -> None:
    assert _reason(_payload(b"\0" * 8), "push-sum-share/2") == "type"
    with pytest.raises(MessageRefused, match=r"secure-sum/4.*same version of Sottovoce on both"):
        decode("secure-sum/2", b"")
    assert _reason(b"\xff") == "malformed"
    for numerator in (b"", b"\0", b"\0" * 9, b"\0" * 8 * (MAX_PARAMETERS + 1)):
        assert _reason(_payload(numerator)) == "shape"
    for weight in (0, MAX_WEIGHT + 1, 2**64 - 1):
        assert _reason(_payload(b"\0" * 8, weight)) == "range"
    for number in (MAX_NUMERATOR + 1, -MAX_NUMERATOR - 1, 2**63 - 1, -(2**63)):
        assert _reason(_payload(b"\0" * 8 + number.to_bytes(8, "little", signed=True))) == "range"


class _TornCodec:
    def from_bytes(self, payload: bytes) -> None:
        raise KeyError("left")


def test_a_message_that_a_plug_in_s_codec_cannot_read_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "payload_codec", lambda kind: _TornCodec())
    with pytest.raises(KeyError):
        decode("odd/1", b"")
    monkeypatch.setattr(attribution, "_loaded", [Plugin(LEARNER, "odd", f"{__name__}:ODD", "elsewhere 1")])
    assert _reason(b"", "odd/1") == "malformed"


def test_a_signed_payload_may_contain_a_later_version_s_fields() -> None:
    assert as_push_sum_share(decode(TYPE, _payload(b"\0" * 8) + b"\x50\x01")).weight == 2**40


@pytest.mark.parametrize(
    "share",
    [
        PushSumShare(np.array([], np.int64), 1),
        PushSumShare(np.zeros((2, 2), np.int64), 1),
        PushSumShare(np.zeros(MAX_PARAMETERS + 1, np.int64), 1),
        PushSumShare(np.array([MAX_NUMERATOR + 1]), 1),
        PushSumShare(np.array([-(2**63)]), 1),
        PushSumShare(np.array([1]), 0),
        PushSumShare(np.array([1]), MAX_WEIGHT + 1),
    ],
    ids=["empty", "matrix", "too-many", "too-large", "too-small", "no-weight", "heavy"],
)
def test_a_sender_refuses_to_encode_an_unacceptable_share(share: PushSumShare) -> None:
    with pytest.raises(InternalError, match=r"peer.*refuse"):
        encode(share)


def test_the_largest_share_fits_an_envelope(devices: tuple[Identity, Identity]) -> None:
    share = PushSumShare(np.full(MAX_PARAMETERS, -MAX_NUMERATOR), MAX_WEIGHT)
    payload_type, payload = encode(share)
    sender, recipient = devices
    last = 2**64 - 1
    raw = seal(
        sender,
        recipient=recipient.node_id,
        incarnation=last,
        sequence=last,
        payload_type=payload_type,
        payload=payload,
        task=bytes(TASK_BYTES),
    )
    assert len(raw) <= MAX_ENVELOPE_BYTES
    assert np.array_equal(as_push_sum_share(decode(payload_type, payload)).numerator, share.numerator)


def test_receipts_survive_encoding() -> None:
    for receipt in (
        Receipt(),
        Receipt(duplicate=True),
        Receipt(refused="task"),
        Receipt(heads=b""),
        Receipt(heads=b"h"),
    ):
        assert decode_receipt(encode_receipt(receipt)) == receipt
    assert decode_receipt(b"\x08\x03") == Receipt(refused="unknown"), "a reason of a later version"
    assert decode_receipt(encode_receipt(Receipt(refused="a b\n"))) == Receipt(refused="unknown")
    for raw in (b"", b"\xff", b"\x08\x00", b"\x08\x7f"):
        with pytest.raises(MessageRefused) as exc_info:
            decode_receipt(raw)
        assert exc_info.value.reason == "malformed"


@pytest.mark.parametrize(
    "packed",
    [
        b"",
        b"\x00" * 8,
        zlib.compress(b"\xc1"),
        zlib.compress(msgpack.encode(())) + b"more",
        zlib.compress(msgpack.encode(()))[:-2],
        zlib.compress(bytes(2**22)),
        zlib.compress(msgpack.encode([Statement("a", bytes(8000), bytes(4000))] * 1024)),
    ],
)
def test_a_roster_that_cannot_be_read_is_refused(packed: bytes) -> None:
    with pytest.raises(MessageRefused) as exc_info:
        _ = RosterProposal(packed).roster
    assert exc_info.value.reason == "malformed"
