"""Extract the part of a graph that computes given outputs.

ONNX Runtime computes the whole graph whichever outputs are requested, so it would compute the gradient even for a
prediction. Nodes that do not contribute to the requested outputs are therefore removed from the bytes of the file. As
devices do not have the onnx library, this code relies only on the Protocol Buffers framing and on the field numbers in
onnx.proto, which never change.
"""

from collections.abc import Collection, Iterator

from sottovoce.errors import ConfigError

_GRAPH = 7  # field in a model
_NODE, _OUTPUT = 1, 12  # fields in a graph
_NODE_INPUT, _NODE_OUTPUT, _ATTRIBUTE = 1, 2, 5  # fields in a node
_NAME = 1  # field in an output
_INNER_GRAPH, _INNER_GRAPHS = 6, 11  # fields in an attribute


def prune_to_outputs(model: bytes, outputs: Collection[str]) -> bytes:
    """Return the model without any nodes and outputs that do not contribute to the given outputs.

    Args:
        model: the bytes of a file that ONNX Runtime has loaded.
        outputs: the names of the outputs to keep.

    Raises:
        ConfigError: if the framing in the file cannot be parsed.
    """
    parts = []
    for number, raw, value in _fields(model):
        parts.append(_encode_field(_GRAPH, _prune_graph(value, outputs)) if number == _GRAPH else raw)
    return b"".join(parts)


def _prune_graph(graph: bytes, outputs: Collection[str]) -> bytes:
    fields = list(_fields(graph))
    needed, retained = {name.encode() for name in outputs}, set()
    for index, (number, _, value) in reversed(list(enumerate(fields))):  # nodes are sorted: each follows its inputs
        if number == _OUTPUT and _field_values(value, _NAME) & needed:
            retained.add(index)
        if number == _NODE and _field_values(value, _NODE_OUTPUT) & needed:
            retained.add(index)
            needed |= _field_values(value, _NODE_INPUT) - {b""}  # an empty name means an omitted optional input
            if any(_has_graph(attribute) for field, _, attribute in _fields(value) if field == _ATTRIBUTE):
                return graph  # inner graphs read values that are not listed as inputs, so keep everything
    return b"".join(
        raw for index, (number, raw, _) in enumerate(fields) if number not in (_NODE, _OUTPUT) or index in retained
    )


def _field_values(message: bytes, field: int) -> set[bytes]:
    return {value for number, _, value in _fields(message) if number == field}


def _has_graph(attribute: bytes) -> bool:
    return any(number in (_INNER_GRAPH, _INNER_GRAPHS) for number, _, _ in _fields(attribute))


def _fields(message: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield the number of each field in a message, the whole field including its key, and its value."""
    position = 0
    while position < len(message):
        key, value = _read_varint(message, position)
        match key & 7:
            case 0:
                end = _read_varint(message, value)[1]
            case 1:
                end = value + 8
            case 2:
                length, value = _read_varint(message, value)
                end = value + length
            case 5:
                end = value + 4
            case _:
                raise _unreadable_error()
        if end > len(message):
            raise _unreadable_error()
        yield key >> 3, message[position:end], message[value:end]
        position = end


def _read_varint(message: bytes, position: int) -> tuple[int, int]:
    """Read a varint, and return its value and the position after it."""
    number = shift = 0
    while position < len(message) and shift < 64:
        byte = message[position]
        number |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if not byte & 0x80:
            return number, position
    raise _unreadable_error()


def _encode_field(field: int, value: bytes) -> bytes:
    """Encode a length-delimited field."""
    return _encode_varint(field << 3 | 2) + _encode_varint(len(value)) + value


def _encode_varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


def _unreadable_error() -> ConfigError:
    return ConfigError("learner.model: the graph cannot be parsed: build the graph file with `sottovoce model build`")
