from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sottovoce.errors import InternalError, MessageRefused
from sottovoce.fleet import Identity, node_id
from sottovoce.net.wire import VerifiedMessage, append_heads, seal, unseal
from sottovoce.net.wire.arrays import MAX_ENVELOPE_BYTES
from sottovoce.net.wire.v1.envelope_pb2 import Envelope

Devices = tuple[Identity, Identity]
TASK = bytes(range(32))


def _seal(devices: Devices, **changes: Any) -> bytes:
    sender, recipient = devices
    fields: dict[str, Any] = {
        "recipient": recipient.node_id,
        "incarnation": 3,
        "sequence": 7,
        "payload_type": "t/1",
        "payload": b"p",
        "task": TASK,
    }
    return seal(sender, **(fields | changes))


def _reason(devices: Devices, raw: bytes) -> str:
    with pytest.raises(MessageRefused) as exc_info:
        unseal(raw, fleet="fleet", recipient=devices[1].node_id)
    return exc_info.value.reason


def _alter(raw: bytes, **changes: Any) -> bytes:
    envelope = Envelope.FromString(raw)
    for field, value in changes.items():
        setattr(envelope, field, value)
    return envelope.SerializeToString(deterministic=True)


def test_a_sealed_envelope_can_be_opened(devices: Devices) -> None:
    opened = unseal(_seal(devices), fleet="fleet", recipient=devices[1].node_id)
    assert opened == VerifiedMessage(devices[0].node_id, 3, 7, "t/1", b"p", TASK)


def test_the_signature_is_the_documented_one(devices: Devices) -> None:
    sender, recipient = devices
    parts = [b"fleet", sender.node_id.encode(), recipient.node_id.encode(), b"\0" * 7 + b"\3", b"\0" * 7 + b"\7"]
    message = b"sottovoce/envelope/v2"
    for part in [*parts, b"t/1", b"p", TASK]:
        message += b"\0" * 7 + bytes([len(part)]) + part
    assert Envelope.FromString(_seal(devices)).signature == sender.sign(message)


def test_sealing_again_yields_the_same_bytes(devices: Devices) -> None:
    assert _seal(devices) == _seal(devices)


@pytest.mark.parametrize("heads", [b"", b"ledger heads"])
def test_heads_are_added_to_sealed_envelopes(devices: Devices, heads: bytes) -> None:
    raw = _seal(devices)
    opened = unseal(append_heads(raw, heads), fleet="fleet", recipient=devices[1].node_id)
    assert opened == VerifiedMessage(devices[0].node_id, 3, 7, "t/1", b"p", TASK, heads)
    assert _reason(devices, append_heads(append_heads(raw, b"some"), b"others")) == "malformed", "at most once"


def test_each_refusal_has_its_reason(devices: Devices) -> None:
    raw = _seal(devices)
    other = "a" * 32
    assert _reason(devices, b"\0" * (MAX_ENVELOPE_BYTES + 1)) == "size"
    assert _reason(devices, b"") == "malformed"
    assert _reason(devices, raw[:-1]) == "malformed"
    assert _reason(devices, _alter(raw, sequence=0)) == "malformed"
    assert _reason(devices, _alter(raw, task=b"\0" * 31)) == "malformed"
    assert _reason(devices, _alter(raw, task=b"")) == "version"
    assert _reason(devices, _alter(raw, fleet="another")) == "fleet"
    assert _reason(devices, _alter(raw, recipient=other)) == "recipient"
    assert _reason(devices, _seal(devices, recipient=devices[0].node_id)) == "recipient"
    assert _reason(devices, _alter(raw, sender=other)) == "sender"
    assert _reason(devices, _alter(raw, sender_key=devices[1].public_key)) == "sender"
    assert _reason(devices, _alter(raw, sender_key=b"")) == "sender"
    for changes in (
        {"incarnation": 4},
        {"sequence": 8},
        {"payload_type": "t/2"},
        {"payload": b"q"},
        {"task": b"\0" * 32},
    ):
        assert _reason(devices, _alter(raw, **changes)) == "signature"
    for signature in (b"", b"\0" * 64, b"\0" * 65):
        assert _reason(devices, _alter(raw, signature=signature)) == "signature"


def test_checks_come_in_the_documented_order(devices: Devices) -> None:
    wrong = {"fleet": "another", "recipient": "a" * 32, "sender": "b" * 32, "payload": b"q"}
    right = {"fleet": "fleet", "recipient": devices[1].node_id, "sender": devices[0].node_id}
    raw = _alter(_seal(devices), **wrong)
    for field, value in right.items():
        assert _reason(devices, raw) == field
        raw = _alter(raw, **{field: value})
    assert _reason(devices, raw) == "signature"


def test_bytes_cannot_move_between_fields(devices: Devices) -> None:
    raw = _seal(devices, payload_type="push", payload=b"sum")
    assert _reason(devices, _alter(raw, payload_type="pushs", payload=b"um")) == "signature"


def test_an_impostor_cannot_use_another_s_name_or_key(devices: Devices) -> None:
    impostor = Ed25519PrivateKey.generate()
    public = impostor.public_key().public_bytes_raw()
    raw = _seal(devices)
    assert _reason(devices, _alter(raw, sender_key=public)) == "sender"
    assert _reason(devices, _alter(raw, sender_key=public, sender=node_id(public))) == "signature"


@pytest.mark.parametrize(
    "addition",
    [
        b"\x50\x01",  # field 10 as a number
        b"\x62\x01x",  # an unknown field 12
        b"\x3a\x01q",  # the payload again: the last one counts
        b"\x28\x07",  # the same sequence number again
        b"\x20\x00",  # a second, default incarnation
        b"\x53\x54",  # an unknown group
    ],
)
def test_nothing_can_be_added(addition: bytes, devices: Devices) -> None:
    raw = _seal(devices)
    assert _reason(devices, raw + addition) == _reason(devices, addition + raw) == "malformed"


def test_fields_are_ordered_and_numbers_in_their_shortest_form(devices: Devices) -> None:
    raw = _seal(devices)
    assert raw.count(b"\x20\x03\x28\x07") == 1
    assert _reason(devices, raw.replace(b"\x20\x03\x28\x07", b"\x28\x07\x20\x03")) == "malformed"
    assert _reason(devices, raw.replace(b"\x28\x07", b"\x28\x87\x00")) == "malformed"


def test_a_sender_refuses_to_seal_unacceptable_content(devices: Devices) -> None:
    for changes in ({"sequence": 0}, {"payload": b"\0" * MAX_ENVELOPE_BYTES}):
        with pytest.raises(InternalError):
            _seal(devices, **changes)


def test_the_largest_envelope_is_accepted(devices: Devices) -> None:
    overhead = len(_seal(devices, payload=b"\0" * 2**21)) - 2**21
    raw = _seal(devices, payload=b"\0" * (MAX_ENVELOPE_BYTES - overhead))
    assert len(raw) == MAX_ENVELOPE_BYTES
    assert unseal(raw, fleet="fleet", recipient=devices[1].node_id).sequence == 7
