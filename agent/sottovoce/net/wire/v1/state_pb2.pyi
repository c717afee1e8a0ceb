from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class PushSumState(_message.Message):
    __slots__ = ("numerator", "weight", "cycle", "step", "exhausted", "turn", "size", "width", "shift", "packed", "learnt")
    NUMERATOR_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    CYCLE_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    EXHAUSTED_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    SHIFT_FIELD_NUMBER: _ClassVar[int]
    PACKED_FIELD_NUMBER: _ClassVar[int]
    LEARNT_FIELD_NUMBER: _ClassVar[int]
    numerator: bytes
    weight: int
    cycle: int
    step: int
    exhausted: bool
    turn: int
    size: int
    width: int
    shift: int
    packed: bytes
    learnt: int
    def __init__(self, numerator: _Optional[bytes] = ..., weight: _Optional[int] = ..., cycle: _Optional[int] = ..., step: _Optional[int] = ..., exhausted: _Optional[bool] = ..., turn: _Optional[int] = ..., size: _Optional[int] = ..., width: _Optional[int] = ..., shift: _Optional[int] = ..., packed: _Optional[bytes] = ..., learnt: _Optional[int] = ...) -> None: ...
