from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Perturbation(_message.Message):
    __slots__ = ("scheme", "features", "classes", "epsilon")
    SCHEME_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    CLASSES_FIELD_NUMBER: _ClassVar[int]
    EPSILON_FIELD_NUMBER: _ClassVar[int]
    scheme: str
    features: int
    classes: int
    epsilon: float
    def __init__(self, scheme: _Optional[str] = ..., features: _Optional[int] = ..., classes: _Optional[int] = ..., epsilon: _Optional[float] = ...) -> None: ...

class PublishedRecord(_message.Message):
    __slots__ = ("slot", "values", "signature")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    slot: int
    values: _containers.RepeatedScalarFieldContainer[int]
    signature: bytes
    def __init__(self, slot: _Optional[int] = ..., values: _Optional[_Iterable[int]] = ..., signature: _Optional[bytes] = ...) -> None: ...

class PublishedRecords(_message.Message):
    __slots__ = ("owner", "credential", "perturbation", "records")
    OWNER_FIELD_NUMBER: _ClassVar[int]
    CREDENTIAL_FIELD_NUMBER: _ClassVar[int]
    PERTURBATION_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    owner: str
    credential: bytes
    perturbation: Perturbation
    records: _containers.RepeatedCompositeFieldContainer[PublishedRecord]
    def __init__(self, owner: _Optional[str] = ..., credential: _Optional[bytes] = ..., perturbation: _Optional[_Union[Perturbation, _Mapping]] = ..., records: _Optional[_Iterable[_Union[PublishedRecord, _Mapping]]] = ...) -> None: ...

class GolfMessage(_message.Message):
    __slots__ = ("parameters", "age", "holding_count", "holding_checksum", "records")
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    AGE_FIELD_NUMBER: _ClassVar[int]
    HOLDING_COUNT_FIELD_NUMBER: _ClassVar[int]
    HOLDING_CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    parameters: bytes
    age: int
    holding_count: int
    holding_checksum: int
    records: _containers.RepeatedCompositeFieldContainer[PublishedRecords]
    def __init__(self, parameters: _Optional[bytes] = ..., age: _Optional[int] = ..., holding_count: _Optional[int] = ..., holding_checksum: _Optional[int] = ..., records: _Optional[_Iterable[_Union[PublishedRecords, _Mapping]]] = ...) -> None: ...

class GolfState(_message.Message):
    __slots__ = ("parameters", "age", "cycle", "turn")
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    AGE_FIELD_NUMBER: _ClassVar[int]
    CYCLE_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    parameters: bytes
    age: int
    cycle: int
    turn: int
    def __init__(self, parameters: _Optional[bytes] = ..., age: _Optional[int] = ..., cycle: _Optional[int] = ..., turn: _Optional[int] = ...) -> None: ...
