"""Tamper with model files as an attacker would: the result still parses as a protocol buffer, with altered fields."""

import random
from typing import Any

from google.protobuf.message import Message
from onnx import ModelProto

_NUMBERS = (0, 1, -1, 2, 7, 2**31 - 1, -(2**31), 2**40, 2**62, -(2**63))
_TEXTS = ("", "../x", "x" * 300, "Loop", "Relu", "features", "parameters", "com.evil", "\x00", "ε")


def alter_model(rng: random.Random, raw: bytes) -> bytes:
    """Change, leave out or repeat one to three fields of a model."""
    model = ModelProto.FromString(raw)
    for _ in range(rng.randint(1, 3)):
        messages = list(_messages(model))
        _bend(rng, rng.choice(messages))
    return model.SerializeToString()


def _messages(message: Message) -> list[Message]:
    results = [message]
    for field, value in message.ListFields():
        if field.message_type is not None:
            for inner in value if field.is_repeated else [value]:
                results += _messages(inner)
    return results


def _bend(rng: random.Random, message: Message) -> None:
    field: Any = rng.choice(message.DESCRIPTOR.fields)
    if rng.random() < 0.2:
        message.ClearField(field.name)
        return
    if field.is_repeated:
        values = getattr(message, field.name)
        if field.message_type is not None:
            values.add().CopyFrom(rng.choice(values)) if values else values.add()
            return
        number = rng.randrange(len(values)) if values else None
        if number is None or rng.random() < 0.3:
            values.append(_value(rng, field))
        else:
            values[number] = _value(rng, field)
    elif field.message_type is not None:
        getattr(message, field.name).SetInParent()
    else:
        setattr(message, field.name, _value(rng, field))


def _value(rng: random.Random, field: Any) -> Any:
    if field.enum_type is not None:
        return rng.choice(field.enum_type.values).number
    match field.cpp_type:
        case field.CPPTYPE_STRING:
            text = rng.choice(_TEXTS)
            return text.encode() if field.type == field.TYPE_BYTES else text
        case field.CPPTYPE_FLOAT | field.CPPTYPE_DOUBLE:
            return rng.choice((0.0, -1.0, 1e30, float("inf"), float("nan")))
        case field.CPPTYPE_INT32 | field.CPPTYPE_UINT32:
            return rng.choice([number for number in _NUMBERS if 0 <= number < 2**31])
        case _:
            number = rng.choice(_NUMBERS)
            return abs(number) % 2**63 if field.cpp_type == field.CPPTYPE_UINT64 else number
