"""Chain of charges: each charge's link is a hash over all earlier ones, so that one head stands for a whole ledger."""

import hashlib
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Head:
    """Position of a ledger's chain.

    Attributes:
        charges: number of charges in the chain.
        link: link of the last charge, 32 bytes; the chain's first link if there is none.
    """

    charges: int
    link: bytes


@dataclass(frozen=True, slots=True)
class Tip:
    """Head of a ledger, as sent to peers. Both numbers only increase.

    Attributes:
        charges: number of charges in the ledger.
        released: number of the newest charge whose release it holds; 0 if it holds none.
        mark: hash over the link of the last charge and the newest release, 32 bytes. Two copies of a ledger make the
            same charges, but never the same releases: their marks differ from the first release that each of them
            makes.
    """

    charges: int
    released: int
    mark: bytes


def first_link(made_for: str, nonce: bytes) -> bytes:
    """Return the link before the first charge of a ledger with this owner and budget, in canonical form."""
    return hashlib.sha256(b"sottovoce/ledger/v3|" + nonce + made_for.encode()).digest()


def next_link(link: bytes, query: bytes, terms: str) -> bytes:
    """Return the link of a charge."""
    return hashlib.sha256(link + query + terms.encode()).digest()


def release_digest(link: bytes, exponent: int, value: bytes, simulated: bool) -> bytes:
    """Return the digest of a stored release and the link of its charge."""
    return hashlib.sha256(link + exponent.to_bytes(8, "big", signed=True) + bytes([simulated]) + value).digest()


def mark(link: bytes, digest: bytes) -> bytes:
    """Mark of a ledger with this newest link and this digest of its newest release, empty if there is none."""
    return hashlib.sha256(b"sottovoce/ledger-mark/v1|" + link + digest).digest()
