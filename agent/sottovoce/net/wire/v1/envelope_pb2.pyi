from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Envelope(_message.Message):
    __slots__ = ("fleet", "sender", "recipient", "incarnation", "sequence", "payload_type", "payload", "sender_key", "signature", "task", "heads")
    FLEET_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    RECIPIENT_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_TYPE_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    SENDER_KEY_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    HEADS_FIELD_NUMBER: _ClassVar[int]
    fleet: str
    sender: str
    recipient: str
    incarnation: int
    sequence: int
    payload_type: str
    payload: bytes
    sender_key: bytes
    signature: bytes
    task: bytes
    heads: bytes
    def __init__(self, fleet: _Optional[str] = ..., sender: _Optional[str] = ..., recipient: _Optional[str] = ..., incarnation: _Optional[int] = ..., sequence: _Optional[int] = ..., payload_type: _Optional[str] = ..., payload: _Optional[bytes] = ..., sender_key: _Optional[bytes] = ..., signature: _Optional[bytes] = ..., task: _Optional[bytes] = ..., heads: _Optional[bytes] = ...) -> None: ...

class Receipt(_message.Message):
    __slots__ = ("outcome", "reason", "heads", "reply", "reply_type")
    class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        OUTCOME_UNSPECIFIED: _ClassVar[Receipt.Outcome]
        OUTCOME_APPLIED: _ClassVar[Receipt.Outcome]
        OUTCOME_DUPLICATE: _ClassVar[Receipt.Outcome]
        OUTCOME_REFUSED: _ClassVar[Receipt.Outcome]
    OUTCOME_UNSPECIFIED: Receipt.Outcome
    OUTCOME_APPLIED: Receipt.Outcome
    OUTCOME_DUPLICATE: Receipt.Outcome
    OUTCOME_REFUSED: Receipt.Outcome
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    HEADS_FIELD_NUMBER: _ClassVar[int]
    REPLY_FIELD_NUMBER: _ClassVar[int]
    REPLY_TYPE_FIELD_NUMBER: _ClassVar[int]
    outcome: Receipt.Outcome
    reason: str
    heads: bytes
    reply: bytes
    reply_type: str
    def __init__(self, outcome: _Optional[_Union[Receipt.Outcome, str]] = ..., reason: _Optional[str] = ..., heads: _Optional[bytes] = ..., reply: _Optional[bytes] = ..., reply_type: _Optional[str] = ...) -> None: ...

class PushSumShare(_message.Message):
    __slots__ = ("numerator", "weight", "size", "width", "shift", "packed")
    NUMERATOR_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    SHIFT_FIELD_NUMBER: _ClassVar[int]
    PACKED_FIELD_NUMBER: _ClassVar[int]
    numerator: bytes
    weight: int
    size: int
    width: int
    shift: int
    packed: bytes
    def __init__(self, numerator: _Optional[bytes] = ..., weight: _Optional[int] = ..., size: _Optional[int] = ..., width: _Optional[int] = ..., shift: _Optional[int] = ..., packed: _Optional[bytes] = ...) -> None: ...
