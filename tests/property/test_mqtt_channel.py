"""Messages in any order and company: each is opened at most once, as sealed, and never if altered."""

import hypothesis.strategies as st
from hypothesis import given, settings
from sottovoce.errors import MessageRefused
from sottovoce.transport.mqtt.secrecy import Channel, SessionKey

_WINDOW = 1024


def _pair() -> tuple[Channel, Channel]:
    a, b = SessionKey(), SessionKey()
    return a.channel_to("a", "b", b.public), b.channel_to("b", "a", a.public)


def _opened(channel: Channel, counter: int, sealed: bytes) -> bytes | None:
    try:
        return channel.open(counter, sealed)
    except MessageRefused:
        return None


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_each_message_once_in_any_order_with_any_repetition(data: st.DataObject) -> None:
    a, b = _pair()
    count = data.draw(st.integers(1, 40))
    sealed = [a.seal(b"message %d" % i) for i in range(count)]
    order = data.draw(st.lists(st.integers(0, count - 1), max_size=120))
    opened = [content for i in order if (content := _opened(b, *sealed[i])) is not None]
    assert sorted(opened) == sorted(b"message %d" % i for i in set(order))  # none is too late within the window


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_over_long_stretches_none_comes_twice_and_none_within_the_window_is_lost(data: st.DataObject) -> None:
    a, b = _pair()
    sealed = dict(a.seal(b"x") for _ in range(3 * _WINDOW))
    newest, opened = 0, set()
    for counter in data.draw(st.lists(st.integers(1, 3 * _WINDOW), max_size=60)):
        came = _opened(b, counter, sealed[counter]) is not None
        assert came == (counter not in opened and counter > newest - _WINDOW)
        opened |= {counter} if came else set()
        newest = max(newest, counter) if came else newest


@settings(max_examples=100, deadline=None)
@given(
    content=st.binary(max_size=60),
    counter=st.one_of(st.integers(-(2**70), 2**70), st.integers(0, 3)),
    place=st.integers(0, 10_000),
    mask=st.integers(0, 255),
    cut=st.integers(0, 5),
)
def test_altered_never_and_the_true_one_still_is(content: bytes, counter: int, place: int, mask: int, cut: int) -> None:
    a, b = _pair()
    number, sealed = a.seal(content)
    altered = bytearray(sealed[: len(sealed) - cut])
    altered[place % len(altered)] ^= mask
    if (counter, bytes(altered)) != (number, sealed):
        assert _opened(b, counter, bytes(altered)) is None
    assert b.open(number, sealed) == content
