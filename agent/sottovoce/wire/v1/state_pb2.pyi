from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class PushSumState(_message.Message):
    __slots__ = ("numerator", "weight", "cycle", "step", "exhausted", "turn")
    NUMERATOR_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    CYCLE_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    EXHAUSTED_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    numerator: bytes
    weight: int
    cycle: int
    step: int
    exhausted: bool
    turn: int
    def __init__(self, numerator: _Optional[bytes] = ..., weight: _Optional[int] = ..., cycle: _Optional[int] = ..., step: _Optional[int] = ..., exhausted: _Optional[bool] = ..., turn: _Optional[int] = ...) -> None: ...
