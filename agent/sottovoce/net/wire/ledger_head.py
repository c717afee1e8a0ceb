"""Ledger heads: signed summaries of a device's ledger.

Other devices store a head and later return it unchanged, so the device can detect that its ledger was restored from an
old copy.
"""

from dataclasses import dataclass, field, replace

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from google.protobuf.message import DecodeError

from sottovoce.errors import MessageRefused
from sottovoce.fleet.framing import frame_fields
from sottovoce.fleet.identity import Identity
from sottovoce.fleet.keys import PUBLIC_KEY_BYTES, SIGNATURE_BYTES, node_id
from sottovoce.net.wire.v1 import ledger_head_pb2

LEDGER_HEAD = "ledger-head/1"
MARK_BYTES = 32
LIFE_BYTES = 16
MAX_SQLITE_INTEGER = 2**63 - 1
"""The largest integer that SQLite stores."""

_MAX_BYTES = 1024  # well above the size of two heads
_DOMAIN = b"sottovoce/ledger-head/v1"


@dataclass(frozen=True, slots=True)
class SignedHead:
    """A device's signed statement about the state of its ledger.

    Attributes:
        owner_key: the device's raw Ed25519 public key, 32 bytes.
        charges: number of charges in the ledger, below 2^63.
        released: number of the newest charge whose release the ledger contains; at most `charges`.
        mark: 32-byte digest of the ledger's state at this charge and release.
        life: 16 random bytes that identify one run of the device; generated at every start.
        signature: the device's signature over its fleet and all of the above, 64 bytes.

    Raises:
        MessageRefused: for `head`, if a field is malformed. The signature is not verified.
    """

    owner_key: bytes
    charges: int
    released: int
    mark: bytes
    life: bytes
    signature: bytes = field(default=bytes(SIGNATURE_BYTES), repr=False)

    def __post_init__(self) -> None:
        """Check that every field is well-formed."""
        lengths = [len(part) for part in (self.owner_key, self.mark, self.life, self.signature)]
        if lengths != [PUBLIC_KEY_BYTES, MARK_BYTES, LIFE_BYTES, SIGNATURE_BYTES]:
            raise MessageRefused("head", "a ledger head's key, mark, life or signature has the wrong length")
        if not 0 <= self.released <= self.charges <= MAX_SQLITE_INTEGER:
            raise MessageRefused(
                "head", "a ledger head reports more releases than charges, or a number that is out of range"
            )

    @property
    def owner(self) -> str:
        """Return the device's node id."""
        return node_id(self.owner_key)

    def sign(self, identity: Identity) -> "SignedHead":
        """Return the head with the signature of `identity`, whose public key must be `owner_key`."""
        return replace(self, signature=identity.sign(self._signed_bytes(identity.fleet)))

    def verify(self, fleet: str) -> None:
        """Check the signature.

        Raises:
            MessageRefused: for `signature`, if it is not valid.
        """
        try:
            Ed25519PublicKey.from_public_bytes(self.owner_key).verify(self.signature, self._signed_bytes(fleet))
        except (InvalidSignature, ValueError) as error:
            raise MessageRefused("signature", f"a ledger head of {self.owner} is not signed by that device") from error

    def _signed_bytes(self, fleet: str) -> bytes:
        numbers = (self.charges.to_bytes(8, "big"), self.released.to_bytes(8, "big"))
        fields = (fleet.encode(), self.owner_key, *numbers, self.mark, self.life)
        return frame_fields(_DOMAIN, fields)


@dataclass(frozen=True, slots=True)
class Heads:
    """One message in an exchange of ledger heads: a request to a peer, or its answer.

    Attributes:
        head: the sender's head; None in an answer.
        known_head: the recipient's highest head that the sender already knew; None if it knew none.
    """

    head: SignedHead | None
    known_head: SignedHead | None


def encode_heads(heads: Heads) -> bytes:
    """Encode a request, as a payload of type `LEDGER_HEAD`, or an answer."""
    message = ledger_head_pb2.LedgerHeads()
    if heads.head is not None:
        message.head.CopyFrom(_encode(heads.head))
    if heads.known_head is not None:
        message.known.CopyFrom(_encode(heads.known_head))
    return message.SerializeToString(deterministic=True)


def decode_heads(payload: bytes) -> Heads:
    """Decode a request or an answer without verifying signatures.

    Raises:
        MessageRefused: for `size`, `malformed` (not a valid protobuf message, or not in canonical form) or `head`.
    """
    if len(payload) > _MAX_BYTES:
        raise MessageRefused("size", f"ledger heads of {len(payload)} bytes exceed the limit of {_MAX_BYTES}")
    try:
        message = ledger_head_pb2.LedgerHeads.FromString(payload)
    except DecodeError as error:
        raise MessageRefused("malformed", "the payload is not a valid protobuf message") from error
    message.DiscardUnknownFields()
    if message.SerializeToString(deterministic=True) != payload:
        raise MessageRefused("malformed", "the ledger heads are not in canonical form")
    return Heads(
        _decode(message.head) if message.HasField("head") else None,
        _decode(message.known) if message.HasField("known") else None,
    )


def _encode(head: SignedHead) -> ledger_head_pb2.LedgerHead:
    return ledger_head_pb2.LedgerHead(
        owner_key=head.owner_key,
        charges=head.charges,
        released=head.released,
        mark=head.mark,
        life=head.life,
        signature=head.signature,
    )


def _decode(head: ledger_head_pb2.LedgerHead) -> SignedHead:
    return SignedHead(
        owner_key=head.owner_key,
        charges=head.charges,
        released=head.released,
        mark=head.mark,
        life=head.life,
        signature=head.signature,
    )
