from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SharedModelHead(_message.Message):
    __slots__ = ("step", "writer")
    STEP_FIELD_NUMBER: _ClassVar[int]
    WRITER_FIELD_NUMBER: _ClassVar[int]
    step: int
    writer: str
    def __init__(self, step: _Optional[int] = ..., writer: _Optional[str] = ...) -> None: ...

class SharedModelWanted(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SharedModel(_message.Message):
    __slots__ = ("head", "parameters")
    HEAD_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    head: SharedModelHead
    parameters: bytes
    def __init__(self, head: _Optional[_Union[SharedModelHead, _Mapping]] = ..., parameters: _Optional[bytes] = ...) -> None: ...

class SharedModelMessage(_message.Message):
    __slots__ = ("announced", "wanted", "model")
    ANNOUNCED_FIELD_NUMBER: _ClassVar[int]
    WANTED_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    announced: SharedModelHead
    wanted: SharedModelWanted
    model: SharedModel
    def __init__(self, announced: _Optional[_Union[SharedModelHead, _Mapping]] = ..., wanted: _Optional[_Union[SharedModelWanted, _Mapping]] = ..., model: _Optional[_Union[SharedModel, _Mapping]] = ...) -> None: ...

class SharedModelState(_message.Message):
    __slots__ = ("model", "own", "heard", "told", "cycle", "turn", "exhausted", "forks", "lost", "written")
    class WrittenEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    MODEL_FIELD_NUMBER: _ClassVar[int]
    OWN_FIELD_NUMBER: _ClassVar[int]
    HEARD_FIELD_NUMBER: _ClassVar[int]
    TOLD_FIELD_NUMBER: _ClassVar[int]
    CYCLE_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    EXHAUSTED_FIELD_NUMBER: _ClassVar[int]
    FORKS_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    WRITTEN_FIELD_NUMBER: _ClassVar[int]
    model: SharedModel
    own: bytes
    heard: SharedModelHead
    told: SharedModelHead
    cycle: int
    turn: int
    exhausted: bool
    forks: int
    lost: int
    written: _containers.ScalarMap[str, int]
    def __init__(self, model: _Optional[_Union[SharedModel, _Mapping]] = ..., own: _Optional[bytes] = ..., heard: _Optional[_Union[SharedModelHead, _Mapping]] = ..., told: _Optional[_Union[SharedModelHead, _Mapping]] = ..., cycle: _Optional[int] = ..., turn: _Optional[int] = ..., exhausted: _Optional[bool] = ..., forks: _Optional[int] = ..., lost: _Optional[int] = ..., written: _Optional[_Mapping[str, int]] = ...) -> None: ...
