"""Provenance without signatures, for fleets that are simulated in one process."""

from typing import TypeVar

from sottovoce.learning.learners import Signed

S = TypeVar("S", bound=Signed)


class UnsignedProvenance:
    """A sottovoce.learning.learners.Provenance that signs nothing and accepts everything; all devices are honest."""

    def sign(self, document: S) -> S:
        """Return the document unchanged."""
        return document

    def verify(self, published: Signed) -> None:
        """Accept the document without a check."""

    def admit(self, published: Signed) -> None:
        """Accept the document without a check."""

    def is_revoked(self, owner: str) -> bool:
        """Return False, because no device is revoked here."""
        return False
