from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Contribution(_message.Message):
    __slots__ = ("owner", "credential", "steps", "size", "width", "shift", "packed", "signature")
    OWNER_FIELD_NUMBER: _ClassVar[int]
    CREDENTIAL_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    SHIFT_FIELD_NUMBER: _ClassVar[int]
    PACKED_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    owner: str
    credential: bytes
    steps: int
    size: int
    width: int
    shift: int
    packed: bytes
    signature: bytes
    def __init__(self, owner: _Optional[str] = ..., credential: _Optional[bytes] = ..., steps: _Optional[int] = ..., size: _Optional[int] = ..., width: _Optional[int] = ..., shift: _Optional[int] = ..., packed: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...

class Contributions(_message.Message):
    __slots__ = ("ranks", "steps", "contributions")
    RANKS_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    CONTRIBUTIONS_FIELD_NUMBER: _ClassVar[int]
    ranks: _containers.RepeatedScalarFieldContainer[int]
    steps: _containers.RepeatedScalarFieldContainer[int]
    contributions: _containers.RepeatedCompositeFieldContainer[Contribution]
    def __init__(self, ranks: _Optional[_Iterable[int]] = ..., steps: _Optional[_Iterable[int]] = ..., contributions: _Optional[_Iterable[_Union[Contribution, _Mapping]]] = ...) -> None: ...

class ContributionsState(_message.Message):
    __slots__ = ("size", "width", "shift", "packed", "cycle", "step", "exhausted", "turn", "variation", "held")
    SIZE_FIELD_NUMBER: _ClassVar[int]
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    SHIFT_FIELD_NUMBER: _ClassVar[int]
    PACKED_FIELD_NUMBER: _ClassVar[int]
    CYCLE_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    EXHAUSTED_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    VARIATION_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    size: int
    width: int
    shift: int
    packed: bytes
    cycle: int
    step: int
    exhausted: bool
    turn: int
    variation: float
    held: _containers.RepeatedCompositeFieldContainer[Contribution]
    def __init__(self, size: _Optional[int] = ..., width: _Optional[int] = ..., shift: _Optional[int] = ..., packed: _Optional[bytes] = ..., cycle: _Optional[int] = ..., step: _Optional[int] = ..., exhausted: _Optional[bool] = ..., turn: _Optional[int] = ..., variation: _Optional[float] = ..., held: _Optional[_Iterable[_Union[Contribution, _Mapping]]] = ...) -> None: ...
