"""Decoding of protobuf messages that arrive from a broker."""

from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from sottovoce.errors import MessageRefused

_M = TypeVar("_M", bound=Message)


def decode_canonical(kind: type[_M], raw: bytes) -> _M:
    """Decode a message that must be in canonical form, so that no one can add unsigned data to it.

    Raises:
        MessageRefused: with reason `malformed` if the message cannot be decoded or is not in canonical form.
    """
    try:
        message = kind.FromString(raw)
    except DecodeError as error:
        raise MessageRefused("malformed", f"the data is not a protobuf message of type {kind.__name__}") from error
    message.DiscardUnknownFields()
    if message.SerializeToString(deterministic=True) != raw:
        raise MessageRefused("malformed", f"a {kind.__name__} is not in canonical form")
    return message
