"""Convert view exchanges to and from envelope payloads."""

from google.protobuf.message import DecodeError
from sottovoce_bootstrap import Entry, Exchange, PeerRecord

from sottovoce.errors import MessageRefused
from sottovoce.net.wire.v1 import membership_pb2

PEER_EXCHANGE = "peer-exchange/1"

MAX_EXCHANGE_BYTES = 64 * 2**10
"""Size limit in bytes, which is enough for 16 records with the longest certificates, names and addresses."""

_LARGEST_AGE = 2**32 - 1


def encode_exchange(exchange: Exchange) -> bytes:
    """Encode a request or reply as a payload of type `PEER_EXCHANGE`; ages above 49 days are sent as 49 days."""
    entries = [
        membership_pb2.PeerEntry(record=_encode(entry.record), age=min(round(entry.age * 1000), _LARGEST_AGE))
        for entry in exchange.entries
    ]
    return membership_pb2.PeerExchange(entries=entries).SerializeToString(deterministic=True)


def decode_exchange(payload: bytes) -> Exchange:
    """Decode a payload of type `PEER_EXCHANGE` without verifying its records.

    Raises:
        MessageRefused: for `size`, `malformed` (not a valid protobuf message, or not in canonical form), `record` or
            `entries`.
    """
    if len(payload) > MAX_EXCHANGE_BYTES:
        raise MessageRefused("size", f"an exchange of {len(payload)} bytes exceeds the limit of {MAX_EXCHANGE_BYTES}")
    try:
        message = membership_pb2.PeerExchange.FromString(payload)
    except DecodeError as error:
        raise MessageRefused("malformed", "the payload is not a valid protobuf message") from error
    # Records are forwarded, so any unsigned bytes would be forwarded with them.
    message.DiscardUnknownFields()
    if message.SerializeToString(deterministic=True) != payload:
        raise MessageRefused("malformed", "the exchange is not in canonical form")
    return Exchange(tuple(Entry(_decode(entry.record), entry.age / 1000) for entry in message.entries))


def _encode(record: PeerRecord) -> membership_pb2.PeerRecord:
    return membership_pb2.PeerRecord(
        fleet=record.fleet,
        node_id=record.node_id,
        incarnation=record.incarnation,
        sequence=record.sequence,
        endpoints=record.endpoints,
        transports=record.transports,
        leaving=record.leaving,
        certificate=record.certificate,
        signature=record.signature,
    )


def _decode(record: membership_pb2.PeerRecord) -> PeerRecord:
    return PeerRecord(
        fleet=record.fleet,
        node_id=record.node_id,
        incarnation=record.incarnation,
        sequence=record.sequence,
        endpoints=tuple(record.endpoints),
        transports=tuple(record.transports),
        leaving=record.leaving,
        certificate=record.certificate,
        signature=record.signature,
    )
