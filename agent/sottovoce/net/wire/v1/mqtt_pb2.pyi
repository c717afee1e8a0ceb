from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Introduction(_message.Message):
    __slots__ = ("fleet", "node_id", "incarnation", "sequence", "session_key", "gone", "certificate", "signature")
    FLEET_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    SESSION_KEY_FIELD_NUMBER: _ClassVar[int]
    GONE_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    fleet: str
    node_id: str
    incarnation: int
    sequence: int
    session_key: bytes
    gone: bool
    certificate: bytes
    signature: bytes
    def __init__(self, fleet: _Optional[str] = ..., node_id: _Optional[str] = ..., incarnation: _Optional[int] = ..., sequence: _Optional[int] = ..., session_key: _Optional[bytes] = ..., gone: _Optional[bool] = ..., certificate: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...

class Frame(_message.Message):
    __slots__ = ("sender_key", "recipient_key", "counter", "introduction", "sealed")
    SENDER_KEY_FIELD_NUMBER: _ClassVar[int]
    RECIPIENT_KEY_FIELD_NUMBER: _ClassVar[int]
    COUNTER_FIELD_NUMBER: _ClassVar[int]
    INTRODUCTION_FIELD_NUMBER: _ClassVar[int]
    SEALED_FIELD_NUMBER: _ClassVar[int]
    sender_key: bytes
    recipient_key: bytes
    counter: int
    introduction: bytes
    sealed: bytes
    def __init__(self, sender_key: _Optional[bytes] = ..., recipient_key: _Optional[bytes] = ..., counter: _Optional[int] = ..., introduction: _Optional[bytes] = ..., sealed: _Optional[bytes] = ...) -> None: ...

class Content(_message.Message):
    __slots__ = ("kind", "exchange", "body")
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        KIND_UNSPECIFIED: _ClassVar[Content.Kind]
        KIND_REQUEST: _ClassVar[Content.Kind]
        KIND_ANSWER: _ClassVar[Content.Kind]
        KIND_REFUSED: _ClassVar[Content.Kind]
        KIND_BUSY: _ClassVar[Content.Kind]
        KIND_FAILED: _ClassVar[Content.Kind]
    KIND_UNSPECIFIED: Content.Kind
    KIND_REQUEST: Content.Kind
    KIND_ANSWER: Content.Kind
    KIND_REFUSED: Content.Kind
    KIND_BUSY: Content.Kind
    KIND_FAILED: Content.Kind
    KIND_FIELD_NUMBER: _ClassVar[int]
    EXCHANGE_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    kind: Content.Kind
    exchange: int
    body: bytes
    def __init__(self, kind: _Optional[_Union[Content.Kind, str]] = ..., exchange: _Optional[int] = ..., body: _Optional[bytes] = ...) -> None: ...
