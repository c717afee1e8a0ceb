"""Messages in any order and company: each is opened at most once, as sealed, and never if altered."""

import hypothesis.strategies as st
from hypothesis import given, settings
from sottovoce.errors import MessageRefused
from sottovoce.net.transports.mqtt.secrecy import Channel, SessionKey

_WINDOW = 1024


def _make_channels() -> tuple[Channel, Channel]:
    a, b = SessionKey(), SessionKey()
    return a.channel_to("a", "b", b.public), b.channel_to("b", "a", a.public)


def _try_open(channel: Channel, counter: int, sealed: bytes) -> bytes | None:
    try:
        return channel.open(counter, sealed)
    except MessageRefused:
        return None


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_each_message_is_opened_once_in_any_order(data: st.DataObject) -> None:
    a, b = _make_channels()
    count = data.draw(st.integers(1, 40))
    sealed = [a.seal(b"message %d" % i) for i in range(count)]
    order = data.draw(st.lists(st.integers(0, count - 1), max_size=120))
    opened = [content for i in order if (content := _try_open(b, *sealed[i])) is not None]
    assert sorted(opened) == sorted(b"message %d" % i for i in set(order))  # none is too late within the window


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_replays_are_refused_and_no_message_within_the_window_is_lost(data: st.DataObject) -> None:
    a, b = _make_channels()
    sealed = dict(a.seal(b"x") for _ in range(3 * _WINDOW))
    newest, opened = 0, set()
    for counter in data.draw(st.lists(st.integers(1, 3 * _WINDOW), max_size=60)):
        was_opened = _try_open(b, counter, sealed[counter]) is not None
        assert was_opened == (counter not in opened and counter > newest - _WINDOW)
        opened |= {counter} if was_opened else set()
        newest = max(newest, counter) if was_opened else newest


@settings(max_examples=100, deadline=None)
@given(
    content=st.binary(max_size=60),
    counter=st.one_of(st.integers(-(2**70), 2**70), st.integers(0, 3)),
    position=st.integers(0, 10_000),
    mask=st.integers(0, 255),
    cut=st.integers(0, 5),
)
def test_altered_messages_are_refused_and_the_original_is_still_opened(
    content: bytes, counter: int, position: int, mask: int, cut: int
) -> None:
    a, b = _make_channels()
    number, sealed = a.seal(content)
    altered = bytearray(sealed[: len(sealed) - cut])
    altered[position % len(altered)] ^= mask
    if (counter, bytes(altered)) != (number, sealed):
        assert _try_open(b, counter, bytes(altered)) is None
    assert b.open(number, sealed) == content
