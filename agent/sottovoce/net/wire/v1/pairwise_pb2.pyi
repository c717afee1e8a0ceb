from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class Proposal(_message.Message):
    __slots__ = ("size", "width", "shift", "packed", "parts", "reach")
    SIZE_FIELD_NUMBER: _ClassVar[int]
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    SHIFT_FIELD_NUMBER: _ClassVar[int]
    PACKED_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    REACH_FIELD_NUMBER: _ClassVar[int]
    size: int
    width: int
    shift: int
    packed: bytes
    parts: int
    reach: float
    def __init__(self, size: _Optional[int] = ..., width: _Optional[int] = ..., shift: _Optional[int] = ..., packed: _Optional[bytes] = ..., parts: _Optional[int] = ..., reach: _Optional[float] = ...) -> None: ...

class Move(_message.Message):
    __slots__ = ("size", "width", "shift", "packed")
    SIZE_FIELD_NUMBER: _ClassVar[int]
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    SHIFT_FIELD_NUMBER: _ClassVar[int]
    PACKED_FIELD_NUMBER: _ClassVar[int]
    size: int
    width: int
    shift: int
    packed: bytes
    def __init__(self, size: _Optional[int] = ..., width: _Optional[int] = ..., shift: _Optional[int] = ..., packed: _Optional[bytes] = ...) -> None: ...
