"""Channels between two devices: each opens the other's sealed messages, once; no third device opens or makes one."""

from collections.abc import Iterable

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from sottovoce.errors import MessageRefused
from sottovoce.net.transports.mqtt.secrecy import Channel, SessionKey

WINDOW = 1024


@pytest.fixture
def keys() -> tuple[SessionKey, SessionKey]:
    return SessionKey(), SessionKey()


@pytest.fixture
def pair(keys: tuple[SessionKey, SessionKey]) -> tuple[Channel, Channel]:
    a, b = keys
    return a.channel_to("a", "b", b.public), b.channel_to("b", "a", a.public)


def reason(channel: Channel, counter: int, sealed: bytes) -> str:
    with pytest.raises(MessageRefused) as exc_info:
        channel.open(counter, sealed)
    return exc_info.value.reason


def open_messages(channel: Channel, messages: Iterable[tuple[int, bytes]]) -> list[bytes]:
    return [channel.open(counter, sealed) for counter, sealed in messages]


def test_each_device_opens_the_other_s_sealed_messages(pair: tuple[Channel, Channel]) -> None:
    a, b = pair
    assert open_messages(b, [a.seal(b"there"), a.seal(b"")]) == [b"there", b""]
    assert open_messages(a, [b.seal(b"back")]) == [b"back"]


def test_a_message_can_be_opened_only_once(pair: tuple[Channel, Channel]) -> None:
    a, b = pair
    messages = [a.seal(b"%d" % i) for i in range(5)]
    assert open_messages(b, messages[::-1]) == [b"4", b"3", b"2", b"1", b"0"]
    assert {reason(b, *message) for message in messages} == {"replayed"}


def test_no_bit_or_counter_can_be_altered_and_the_original_still_opens(
    pair: tuple[Channel, Channel],
) -> None:
    a, b = pair
    counter, sealed = a.seal(b"there")
    for bit in range(8 * len(sealed)):
        altered = bytearray(sealed)
        altered[bit // 8] ^= 1 << bit % 8
        assert reason(b, counter, bytes(altered)) == "forged"
    assert {reason(b, other, sealed) for other in (2, 3, 1000, 2**63 - 1)} == {"forged"}
    assert reason(b, counter, sealed[:15]) == "forged"
    assert reason(b, counter, b"") == "forged"
    assert b.open(counter, sealed) == b"there"


def test_impossible_counters_are_refused_and_change_nothing(pair: tuple[Channel, Channel]) -> None:
    a, b = pair
    message = a.seal(b"there")
    assert {reason(b, other, message[1]) for other in (-1, 0, 2**63, 2**64 - 1)} == {"replayed"}
    assert b.open(*message) == b"there"


def test_messages_may_arrive_in_any_order_within_the_window(pair: tuple[Channel, Channel]) -> None:
    a, b = pair
    messages = [a.seal(b"%d" % i) for i in range(WINDOW + 1)]
    assert b.open(*messages[WINDOW]) == b"%d" % WINDOW
    assert reason(b, *messages[0]) == "replayed"  # outside the window
    assert b.open(*messages[1]) == b"1"
    assert reason(b, *messages[1]) == "replayed"


def test_a_jump_beyond_the_window_still_rejects_repetitions(pair: tuple[Channel, Channel]) -> None:
    a, b = pair
    early = [a.seal(b"early") for _ in range(3)]
    open_messages(b, early[:2])
    late = [a.seal(b"late") for _ in range(2 * WINDOW)][-1]
    b.open(*late)
    assert {reason(b, *message) for message in [*early, late]} == {"replayed"}


def test_a_message_cannot_be_returned_to_its_sender(pair: tuple[Channel, Channel]) -> None:
    a, _ = pair
    assert reason(a, *a.seal(b"there")) == "forged"


@pytest.mark.parametrize("own, other", [("b", "c"), ("c", "a"), ("a", "b"), ("", "ba")])
def test_a_channel_connects_exactly_two_devices(keys: tuple[SessionKey, SessionKey], own: str, other: str) -> None:
    a, b = keys
    message = a.channel_to("a", "b", b.public).seal(b"there")
    assert reason(b.channel_to(own, other, a.public), *message) == "forged"


def test_another_session_opens_nothing(keys: tuple[SessionKey, SessionKey]) -> None:
    a, b = keys
    message = a.channel_to("a", "b", b.public).seal(b"there")
    assert reason(SessionKey().channel_to("b", "a", a.public), *message) == "forged"
    assert reason(b.channel_to("b", "a", SessionKey().public), *message) == "forged"


def test_no_nonce_is_used_twice_across_channels_between_two_keys(
    keys: tuple[SessionKey, SessionKey],
) -> None:
    a, b = keys
    counters = [a.channel_to("a", "b", b.public).seal(b"there")[0] for _ in range(10)]
    assert len(set(counters)) == 10


@pytest.mark.parametrize("key", [bytes(32), b"\x01" + bytes(31), b"\xff" * 31])
def test_invalid_keys_are_refused(key: bytes) -> None:
    with pytest.raises(MessageRefused) as exc_info:
        SessionKey().channel_to("a", "b", key)
    assert exc_info.value.reason == "malformed"


def test_a_key_is_new_at_each_start() -> None:
    assert len({SessionKey().public for _ in range(5)}) == 5
    assert len(X25519PrivateKey.generate().public_key().public_bytes_raw()) == len(SessionKey().public)
