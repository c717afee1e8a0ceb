"""Effects of a membership."""

from dataclasses import dataclass

from sottovoce_bootstrap.contact import Contact
from sottovoce_bootstrap.exchange import Exchange


@dataclass(frozen=True, slots=True)
class Request:
    """Send `exchange` to `contact`; report its reply with on_reply, and no reply, in time, with on_failure."""

    contact: Contact
    exchange: Exchange


@dataclass(frozen=True, slots=True)
class Remember:
    """`contact` has answered: put it into the address book."""

    contact: Contact


@dataclass(frozen=True, slots=True)
class DuplicateIdentity:
    """Somebody signs with this device's key: a copy of it runs, or its boot counter went back. Warn the operator.

    Make `incarnation` durable with BootCounter.advance, and only then hand it to Membership.adopt.
    """

    incarnation: int

    def __str__(self) -> str:
        """One sentence for the log."""
        return (
            "another device uses this device's identity, or its boot counter was lost: if no state was lost, find the "
            "copy, stop it, and enrol it as a device of its own with `sottovoce fleet join`"
        )


Effect = Request | Remember | DuplicateIdentity
