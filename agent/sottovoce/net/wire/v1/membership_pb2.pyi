from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PeerRecord(_message.Message):
    __slots__ = ("fleet", "node_id", "incarnation", "sequence", "endpoints", "transports", "leaving", "certificate", "signature")
    FLEET_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    TRANSPORTS_FIELD_NUMBER: _ClassVar[int]
    LEAVING_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    fleet: str
    node_id: str
    incarnation: int
    sequence: int
    endpoints: _containers.RepeatedScalarFieldContainer[str]
    transports: _containers.RepeatedScalarFieldContainer[str]
    leaving: bool
    certificate: bytes
    signature: bytes
    def __init__(self, fleet: _Optional[str] = ..., node_id: _Optional[str] = ..., incarnation: _Optional[int] = ..., sequence: _Optional[int] = ..., endpoints: _Optional[_Iterable[str]] = ..., transports: _Optional[_Iterable[str]] = ..., leaving: _Optional[bool] = ..., certificate: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...

class PeerEntry(_message.Message):
    __slots__ = ("record", "age")
    RECORD_FIELD_NUMBER: _ClassVar[int]
    AGE_FIELD_NUMBER: _ClassVar[int]
    record: PeerRecord
    age: int
    def __init__(self, record: _Optional[_Union[PeerRecord, _Mapping]] = ..., age: _Optional[int] = ...) -> None: ...

class PeerExchange(_message.Message):
    __slots__ = ("entries",)
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[PeerEntry]
    def __init__(self, entries: _Optional[_Iterable[_Union[PeerEntry, _Mapping]]] = ...) -> None: ...
