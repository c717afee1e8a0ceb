"""Messages in which devices compare their versions of a signed fleet document, so that the newest one spreads."""

from dataclasses import dataclass
from typing import Generic, TypeVar

Document = TypeVar("Document")


@dataclass(frozen=True)  # without slots, since Python 3.11 cannot instantiate a slotted generic class through an alias
class VersionOffer(Generic[Document]):
    """A request to compare document versions, or the answer to one.

    Attributes:
        version: version of the sender's document; 0 if the sender has none.
        document: the document if, as far as the sender knows, the recipient has an older version; otherwise None.
    """

    version: int
    document: Document | None
