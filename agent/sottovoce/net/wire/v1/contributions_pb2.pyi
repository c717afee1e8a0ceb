from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RecordSum(_message.Message):
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

class Contribution(_message.Message):
    __slots__ = ("owner", "credential", "steps", "size", "width", "shift", "packed", "signature", "record_sum")
    OWNER_FIELD_NUMBER: _ClassVar[int]
    CREDENTIAL_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    SHIFT_FIELD_NUMBER: _ClassVar[int]
    PACKED_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    RECORD_SUM_FIELD_NUMBER: _ClassVar[int]
    owner: str
    credential: bytes
    steps: int
    size: int
    width: int
    shift: int
    packed: bytes
    signature: bytes
    record_sum: RecordSum
    def __init__(self, owner: _Optional[str] = ..., credential: _Optional[bytes] = ..., steps: _Optional[int] = ..., size: _Optional[int] = ..., width: _Optional[int] = ..., shift: _Optional[int] = ..., packed: _Optional[bytes] = ..., signature: _Optional[bytes] = ..., record_sum: _Optional[_Union[RecordSum, _Mapping]] = ...) -> None: ...

class Change(_message.Message):
    __slots__ = ("rank", "base", "steps", "size", "shift", "low", "coded", "signature", "credential")
    RANK_FIELD_NUMBER: _ClassVar[int]
    BASE_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    SHIFT_FIELD_NUMBER: _ClassVar[int]
    LOW_FIELD_NUMBER: _ClassVar[int]
    CODED_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    CREDENTIAL_FIELD_NUMBER: _ClassVar[int]
    rank: int
    base: int
    steps: int
    size: int
    shift: int
    low: int
    coded: bytes
    signature: bytes
    credential: bytes
    def __init__(self, rank: _Optional[int] = ..., base: _Optional[int] = ..., steps: _Optional[int] = ..., size: _Optional[int] = ..., shift: _Optional[int] = ..., low: _Optional[int] = ..., coded: _Optional[bytes] = ..., signature: _Optional[bytes] = ..., credential: _Optional[bytes] = ...) -> None: ...

class Contributions(_message.Message):
    __slots__ = ("ranks", "steps", "contributions", "certificates", "holdings", "ordered_steps", "changes")
    RANKS_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    CONTRIBUTIONS_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATES_FIELD_NUMBER: _ClassVar[int]
    HOLDINGS_FIELD_NUMBER: _ClassVar[int]
    ORDERED_STEPS_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    ranks: _containers.RepeatedScalarFieldContainer[int]
    steps: _containers.RepeatedScalarFieldContainer[int]
    contributions: _containers.RepeatedCompositeFieldContainer[Contribution]
    certificates: _containers.RepeatedScalarFieldContainer[int]
    holdings: int
    ordered_steps: _containers.RepeatedScalarFieldContainer[int]
    changes: _containers.RepeatedCompositeFieldContainer[Change]
    def __init__(self, ranks: _Optional[_Iterable[int]] = ..., steps: _Optional[_Iterable[int]] = ..., contributions: _Optional[_Iterable[_Union[Contribution, _Mapping]]] = ..., certificates: _Optional[_Iterable[int]] = ..., holdings: _Optional[int] = ..., ordered_steps: _Optional[_Iterable[int]] = ..., changes: _Optional[_Iterable[_Union[Change, _Mapping]]] = ...) -> None: ...

class ContributionsState(_message.Message):
    __slots__ = ("size", "width", "shift", "packed", "cycle", "step", "exhausted", "turn", "variation", "held", "learnt", "record_sum", "mean_cycle", "mean")
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
    LEARNT_FIELD_NUMBER: _ClassVar[int]
    RECORD_SUM_FIELD_NUMBER: _ClassVar[int]
    MEAN_CYCLE_FIELD_NUMBER: _ClassVar[int]
    MEAN_FIELD_NUMBER: _ClassVar[int]
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
    learnt: int
    record_sum: RecordSum
    mean_cycle: int
    mean: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, size: _Optional[int] = ..., width: _Optional[int] = ..., shift: _Optional[int] = ..., packed: _Optional[bytes] = ..., cycle: _Optional[int] = ..., step: _Optional[int] = ..., exhausted: _Optional[bool] = ..., turn: _Optional[int] = ..., variation: _Optional[float] = ..., held: _Optional[_Iterable[_Union[Contribution, _Mapping]]] = ..., learnt: _Optional[int] = ..., record_sum: _Optional[_Union[RecordSum, _Mapping]] = ..., mean_cycle: _Optional[int] = ..., mean: _Optional[_Iterable[float]] = ...) -> None: ...
