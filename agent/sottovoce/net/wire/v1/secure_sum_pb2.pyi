from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class CellMessage(_message.Message):
    __slots__ = ("content",)
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    content: bytes
    def __init__(self, content: _Optional[bytes] = ...) -> None: ...

class CellState(_message.Message):
    __slots__ = ("cycle", "exhausted", "numerator", "members", "simulated", "slot")
    CYCLE_FIELD_NUMBER: _ClassVar[int]
    EXHAUSTED_FIELD_NUMBER: _ClassVar[int]
    NUMERATOR_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    SIMULATED_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    cycle: int
    exhausted: bool
    numerator: bytes
    members: int
    simulated: bool
    slot: int
    def __init__(self, cycle: _Optional[int] = ..., exhausted: _Optional[bool] = ..., numerator: _Optional[bytes] = ..., members: _Optional[int] = ..., simulated: _Optional[bool] = ..., slot: _Optional[int] = ...) -> None: ...
