from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RevocationList(_message.Message):
    __slots__ = ("fleet", "version", "issued", "node_ids", "signature", "keys")
    FLEET_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ISSUED_FIELD_NUMBER: _ClassVar[int]
    NODE_IDS_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    fleet: str
    version: int
    issued: int
    node_ids: bytes
    signature: bytes
    keys: bytes
    def __init__(self, fleet: _Optional[str] = ..., version: _Optional[int] = ..., issued: _Optional[int] = ..., node_ids: _Optional[bytes] = ..., signature: _Optional[bytes] = ..., keys: _Optional[bytes] = ...) -> None: ...

class Revocations(_message.Message):
    __slots__ = ("version", "list")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    LIST_FIELD_NUMBER: _ClassVar[int]
    version: int
    list: RevocationList
    def __init__(self, version: _Optional[int] = ..., list: _Optional[_Union[RevocationList, _Mapping]] = ...) -> None: ...
