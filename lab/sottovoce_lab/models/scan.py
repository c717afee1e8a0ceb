"""Scan the outline of a model file's bytes before any library parses them.

A parser creates an object for every part, regardless of its content: two bytes in a file may take a hundred bytes of
memory, and a small number may take eight. This module therefore counts the parts first and adds up the sizes of all
parts except the weights.
"""

from functools import lru_cache
from pathlib import Path

import onnx
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from sottovoce.errors import ConfigError

MAX_PARTS = 2**18
"""Maximum number of fields in all messages of a file, about six times as many as the graph of ResNet-18 has."""

MAX_LIGHT_BYTES = 2**24
"""Maximum size in bytes of everything except the weights."""

_WEIGHTS = {("onnx.TensorProto", name) for name in ("raw_data", "float_data", "double_data")}
_VARINT, _EIGHT, _MESSAGE, _FOUR = 0, 1, 2, 5
_MAX_DEPTH = 32


def read(path: Path, max_size: int) -> bytes:
    """Read and scan a model file, and return its bytes.

    Args:
        path: the path of the file, which may come from any source.
        max_size: the maximum accepted size, in bytes.

    Raises:
        ConfigError: if the file cannot be read, is larger than `max_size`, or must not be passed to a parser.
    """
    try:
        if not path.is_file():
            raise ConfigError(f"{path}: no such file; specify a model file")
        with path.open("rb") as file:
            raw = file.read(max_size + 1)
    except OSError as error:
        raise ConfigError(f"{path}: the file cannot be read ({error.strerror}); specify a readable file") from error
    if len(raw) > max_size:
        raise ConfigError(
            f"{path}: the file is larger than {max_size >> 20} MiB, the maximum size; use a smaller model"
        )
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
    parts = light_bytes = 0
    pending = [(0, len(raw), onnx.ModelProto.DESCRIPTOR, 0)]
    while pending:
        offset, end, kind, depth = pending.pop()
        inner, weights, texts = _outline(kind)
        while offset < end:
            parts += 1
            key, offset = _varint(raw, offset, end, file)
            number, wire = key >> 3, key & 7
            if wire == _MESSAGE:
                length, offset = _varint(raw, offset, end, file)
                if length > end - offset:
                    raise _no_model(file)
                if number in inner:
                    pending.append((offset, offset + length, inner[number], depth + 1))
                elif number not in weights:
                    light_bytes += length
                if number in texts and not _is_text(raw[offset : offset + length]):
                    raise _no_model(file)
                offset += length
            elif wire == _VARINT:
                _, offset = _varint(raw, offset, end, file)
            elif wire in (_EIGHT, _FOUR):
                offset += 8 if wire == _EIGHT else 4
            else:
                raise _no_model(file)
            if parts > MAX_PARTS or light_bytes > MAX_LIGHT_BYTES:
                raise ConfigError(
                    f"{file}: the model has more than {MAX_PARTS} parts, or more than {MAX_LIGHT_BYTES >> 20} MiB "
                    "without its weights, which is too large to train here; use a smaller model"
                )
        if offset != end or depth > _MAX_DEPTH:
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


def _varint(raw: bytes, offset: int, end: int, file: str) -> tuple[int, int]:
    value = shift = 0
    while offset < end and shift < 64:
        byte = raw[offset]
        value |= (byte & 0x7F) << shift
        offset += 1
        if byte < 0x80:
            return value, offset
        shift += 7
    raise _no_model(file)


def _no_model(file: str) -> ConfigError:
    return ConfigError(f"{file}: the file is not an ONNX model, or is corrupt; export it again")
