"""Offers by which devices compare versions of a signed fleet document, of which the newest counts."""

from dataclasses import dataclass
from typing import Generic, TypeVar

Document = TypeVar("Document")


@dataclass(frozen=True)  # without slots: a generic class with them cannot be made by an alias of it in Python 3.11
class VersionOffer(Generic[Document]):
    """A question, or the answer to it.

    Attributes:
        version: version of the document that the sender holds; 0 for none.
        document: the document, if the sender believes that the recipient has an older version.
    """

    version: int
    document: Document | None
