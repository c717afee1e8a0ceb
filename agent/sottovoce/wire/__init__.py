"""What a message looks like on any transport: encoded, signed, and refused if anything about it is wrong."""

from sottovoce.wire.codec import decode, decode_receipt, encode, encode_receipt
from sottovoce.wire.envelope import Opened, seal, unseal
from sottovoce.wire.limits import MAX_PARAMETERS

__all__ = ["MAX_PARAMETERS", "Opened", "decode", "decode_receipt", "encode", "encode_receipt", "seal", "unseal"]
