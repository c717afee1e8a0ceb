"""The chain of charges: each link is a hash of a charge and all earlier ones, so a head identifies a whole ledger."""

import hashlib
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Head:
    """The end of a ledger's hash chain of charges.

    Attributes:
        charges: number of charges in the chain.
        link: link of the last charge, 32 bytes; the chain's first link if there are no charges.
    """

    charges: int
    link: bytes


@dataclass(frozen=True, slots=True)
class LedgerPosition:
    """The latest position of a ledger, as sent to peers. Both numbers only increase.

    Attributes:
        charges: number of charges in the ledger.
        released: number of the newest charge with a stored release; 0 if there is none.
        mark: hash of the link of the last charge and the newest release, 32 bytes. Two copies of a ledger may make
            the same charges but never the same releases, so their marks differ as soon as each has made a release.
    """

    charges: int
    released: int
    mark: bytes


def first_link(budget_json: str, nonce: bytes) -> bytes:
    """Return the link that precedes a ledger's first charge.

    Args:
        budget_json: the ledger's owner and budget in canonical form.
        nonce: the ledger's nonce.
    """
    return hashlib.sha256(b"sottovoce/ledger/v3|" + nonce + budget_json.encode()).digest()


def next_link(link: bytes, query: bytes, terms: str) -> bytes:
    """Return the link of a charge that follows `link`."""
    return hashlib.sha256(link + query + terms.encode()).digest()


def release_digest(link: bytes, exponent: int, value: bytes, simulated: bool) -> bytes:
    """Return a digest of a stored release and the link of its charge."""
    return hashlib.sha256(link + exponent.to_bytes(8, "big", signed=True) + bytes([simulated]) + value).digest()


def mark(link: bytes, digest: bytes) -> bytes:
    """Return the hash of a ledger's state.

    Args:
        link: link of the newest charge.
        digest: digest of the newest release; empty if there is none.
    """
    return hashlib.sha256(b"sottovoce/ledger-mark/v1|" + link + digest).digest()
