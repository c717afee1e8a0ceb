from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class RoundMessage(_message.Message):
    __slots__ = ("round", "phase", "degree", "vectors")
    ROUND_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    DEGREE_FIELD_NUMBER: _ClassVar[int]
    VECTORS_FIELD_NUMBER: _ClassVar[int]
    round: int
    phase: int
    degree: int
    vectors: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, round: _Optional[int] = ..., phase: _Optional[int] = ..., degree: _Optional[int] = ..., vectors: _Optional[_Iterable[bytes]] = ...) -> None: ...

class RoundsState(_message.Message):
    __slots__ = ("cycle", "model", "direction", "kept", "exhausted")
    CYCLE_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    DIRECTION_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    EXHAUSTED_FIELD_NUMBER: _ClassVar[int]
    cycle: int
    model: bytes
    direction: bytes
    kept: bytes
    exhausted: bool
    def __init__(self, cycle: _Optional[int] = ..., model: _Optional[bytes] = ..., direction: _Optional[bytes] = ..., kept: _Optional[bytes] = ..., exhausted: _Optional[bool] = ...) -> None: ...
