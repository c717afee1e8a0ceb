from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GradientWalkMessage(_message.Message):
    __slots__ = ("parameters", "age")
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    AGE_FIELD_NUMBER: _ClassVar[int]
    parameters: bytes
    age: int
    def __init__(self, parameters: _Optional[bytes] = ..., age: _Optional[int] = ...) -> None: ...

class GradientWalkHeld(_message.Message):
    __slots__ = ("parameters", "age", "visited")
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    AGE_FIELD_NUMBER: _ClassVar[int]
    VISITED_FIELD_NUMBER: _ClassVar[int]
    parameters: bytes
    age: int
    visited: bool
    def __init__(self, parameters: _Optional[bytes] = ..., age: _Optional[int] = ..., visited: _Optional[bool] = ...) -> None: ...

class GradientWalkState(_message.Message):
    __slots__ = ("parameters", "age", "cycle", "turn", "visits", "exhausted", "begun", "walks")
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    AGE_FIELD_NUMBER: _ClassVar[int]
    CYCLE_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    VISITS_FIELD_NUMBER: _ClassVar[int]
    EXHAUSTED_FIELD_NUMBER: _ClassVar[int]
    BEGUN_FIELD_NUMBER: _ClassVar[int]
    WALKS_FIELD_NUMBER: _ClassVar[int]
    parameters: bytes
    age: int
    cycle: int
    turn: int
    visits: int
    exhausted: bool
    begun: bool
    walks: _containers.RepeatedCompositeFieldContainer[GradientWalkHeld]
    def __init__(self, parameters: _Optional[bytes] = ..., age: _Optional[int] = ..., cycle: _Optional[int] = ..., turn: _Optional[int] = ..., visits: _Optional[int] = ..., exhausted: _Optional[bool] = ..., begun: _Optional[bool] = ..., walks: _Optional[_Iterable[_Union[GradientWalkHeld, _Mapping]]] = ...) -> None: ...
