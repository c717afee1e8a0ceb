from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class LedgerHead(_message.Message):
    __slots__ = ("owner_key", "charges", "released", "mark", "life", "signature")
    OWNER_KEY_FIELD_NUMBER: _ClassVar[int]
    CHARGES_FIELD_NUMBER: _ClassVar[int]
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    MARK_FIELD_NUMBER: _ClassVar[int]
    LIFE_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    owner_key: bytes
    charges: int
    released: int
    mark: bytes
    life: bytes
    signature: bytes
    def __init__(self, owner_key: _Optional[bytes] = ..., charges: _Optional[int] = ..., released: _Optional[int] = ..., mark: _Optional[bytes] = ..., life: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...

class LedgerHeads(_message.Message):
    __slots__ = ("head", "known")
    HEAD_FIELD_NUMBER: _ClassVar[int]
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    head: LedgerHead
    known: LedgerHead
    def __init__(self, head: _Optional[_Union[LedgerHead, _Mapping]] = ..., known: _Optional[_Union[LedgerHead, _Mapping]] = ...) -> None: ...
