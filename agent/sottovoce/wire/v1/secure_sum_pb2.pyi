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
    __slots__ = ("cycle", "exhausted", "total", "members", "simulated")
    CYCLE_FIELD_NUMBER: _ClassVar[int]
    EXHAUSTED_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    SIMULATED_FIELD_NUMBER: _ClassVar[int]
    cycle: int
    exhausted: bool
    total: bytes
    members: int
    simulated: bool
    def __init__(self, cycle: _Optional[int] = ..., exhausted: _Optional[bool] = ..., total: _Optional[bytes] = ..., members: _Optional[int] = ..., simulated: _Optional[bool] = ...) -> None: ...
