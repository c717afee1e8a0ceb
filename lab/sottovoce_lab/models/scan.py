"""Scan the outline of a model file's bytes before any library parses it.

A parser creates an object for every part, whatever its content: two bytes in a file may take a hundred bytes of memory,
and a small number may take eight. This module therefore counts the parts first and adds up the sizes of all parts
except the weights.
"""

from functools import lru_cache
from pathlib import Path

import onnx
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from sottovoce.errors import ConfigError

MAX_PARTS = 2**18
"""Maximum number of fields in all messages of a file. The graph of an 18-layer residual network has about a sixth."""

MAX_LIGHT_BYTES = 2**24
"""Maximum size in bytes of everything except the weights."""

_WEIGHTS = {("onnx.TensorProto", name) for name in ("raw_data", "float_data", "double_data")}
_VARINT, _EIGHT, _MESSAGE, _FOUR = 0, 1, 2, 5
_MAX_DEEP = 32


def read(path: Path, most: int) -> bytes:
    """Read and scan a model file, and return its bytes.

    Args:
        path: the path of the file, which may come from any source.
        most: the maximum accepted size, in bytes.

    Raises:
        ConfigError: if the file cannot be read, is larger than `most`, or must not be passed to a parser.
    """
    try:
        if not path.is_file():
            raise ConfigError(f"{path}: no such file; specify a model file")
        with path.open("rb") as file:
            raw = file.read(most + 1)
    except OSError as error:
        raise ConfigError(f"{path}: the file cannot be read ({error.strerror}); specify a readable file") from error
    if len(raw) > most:
        raise ConfigError(f"{path}: the file is larger than {most >> 20} MiB, the maximum size; use a smaller model")
    scan(raw, str(path))
    return raw


def scan(raw: bytes, file: str) -> None:
    """Reject bytes whose outline is not an ONNX model's, or whose parsing would take far too much memory.

    Args:
        raw: the bytes of the whole file.
        file: the file name, for error messages.

    Raises:
        ConfigError: if the bytes are rejected.
    """
    parts = light = 0
    waiting = [(0, len(raw), onnx.ModelProto.DESCRIPTOR, 0)]
    while waiting:
        at, end, kind, depth = waiting.pop()
        inner, weights, texts = _outline(kind)
        while at < end:
            parts += 1
            key, at = _varint(raw, at, end, file)
            number, wire = key >> 3, key & 7
            if wire == _MESSAGE:
                length, at = _varint(raw, at, end, file)
                if length > end - at:
                    raise _no_model(file)
                if number in inner:
                    waiting.append((at, at + length, inner[number], depth + 1))
                elif number not in weights:
                    light += length
                if number in texts and not _is_text(raw[at : at + length]):
                    raise _no_model(file)
                at += length
            elif wire == _VARINT:
                _, at = _varint(raw, at, end, file)
            elif wire in (_EIGHT, _FOUR):
                at += 8 if wire == _EIGHT else 4
            else:
                raise _no_model(file)
            if parts > MAX_PARTS or light > MAX_LIGHT_BYTES:
                raise ConfigError(
                    f"{file}: the model has more than {MAX_PARTS} parts, or more than {MAX_LIGHT_BYTES >> 20} MiB "
                    "without its weights, which is too large to train here; use a smaller model"
                )
        if at != end or depth > _MAX_DEEP:
            raise _no_model(file)


@lru_cache(maxsize=64)
def _outline(kind: Descriptor) -> tuple[dict[int, Descriptor], frozenset[int], frozenset[int]]:
    """Return a message type's nested messages, weight fields and text fields, by field number."""
    fields = kind.fields
    inner = {field.number: field.message_type for field in fields if field.message_type is not None}
    weights = frozenset(field.number for field in fields if (kind.full_name, field.name) in _WEIGHTS)
    return inner, weights, frozenset(field.number for field in fields if field.type == FieldDescriptor.TYPE_STRING)


def _is_text(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def _varint(raw: bytes, at: int, end: int, file: str) -> tuple[int, int]:
    value = shift = 0
    while at < end and shift < 64:
        byte = raw[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7
    raise _no_model(file)


def _no_model(file: str) -> ConfigError:
    return ConfigError(f"{file}: the file is not an ONNX model, or is corrupt; export it again")
