"""Decoding of messages from a broker."""

from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from sottovoce.errors import MessageRefused

_M = TypeVar("_M", bound=Message)


def decode_canonical(kind: type[_M], raw: bytes) -> _M:
    """Return a decoded message, which must be in canonical form, so that nothing unsigned can be added to it.

    Raises:
        MessageRefused: for `malformed`.
    """
    try:
        message = kind.FromString(raw)
    except DecodeError as error:
        raise MessageRefused("malformed", f"it is not a protobuf message of the kind {kind.__name__}") from error
    message.DiscardUnknownFields()
    if message.SerializeToString(deterministic=True) != raw:
        raise MessageRefused("malformed", f"a {kind.__name__} is not in its canonical form")
    return message
