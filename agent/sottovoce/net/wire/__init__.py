"""The wire format of messages on any transport: encoding, signatures and the rejection of invalid messages."""

from sottovoce.net.wire.arrays import MAX_PARAMETERS
from sottovoce.net.wire.codec import Receipt, decode, decode_receipt, encode, encode_receipt
from sottovoce.net.wire.envelope import (
    TASK_BYTES,
    VerifiedMessage,
    append_heads,
    read_payload,
    read_task_digest,
    seal,
    unseal,
)
from sottovoce.net.wire.ledger_head import LEDGER_HEAD, Heads, SignedHead, decode_heads, encode_heads
from sottovoce.net.wire.membership import PEER_EXCHANGE, decode_exchange, encode_exchange
from sottovoce.net.wire.parts import Assembly, SplitMessage, decode_part, is_part

__all__ = [
    "LEDGER_HEAD",
    "MAX_PARAMETERS",
    "PEER_EXCHANGE",
    "TASK_BYTES",
    "Assembly",
    "Heads",
    "Receipt",
    "SignedHead",
    "SplitMessage",
    "VerifiedMessage",
    "append_heads",
    "decode",
    "decode_exchange",
    "decode_heads",
    "decode_part",
    "decode_receipt",
    "encode",
    "encode_exchange",
    "encode_heads",
    "encode_receipt",
    "is_part",
    "read_payload",
    "read_task_digest",
    "seal",
    "unseal",
]
