"""The effects that a membership asks its caller to perform."""

from dataclasses import dataclass

from sottovoce_bootstrap.contact import Contact
from sottovoce_bootstrap.exchange import Exchange


@dataclass(frozen=True, slots=True)
class Request:
    """An effect that sends `exchange` to `contact`; report a reply with on_reply, or a failure with on_failure."""

    contact: Contact
    exchange: Exchange


@dataclass(frozen=True, slots=True)
class Remember:
    """An effect that adds `contact`, which has answered, to the address book."""

    contact: Contact


@dataclass(frozen=True, slots=True)
class DuplicateIdentity:
    """An effect that warns the operator: a copy of this device is using its key, or its boot counter went back.

    Make `incarnation` durable with BootCounter.advance, and only then pass it to Membership.adopt.
    """

    incarnation: int

    def __str__(self) -> str:
        """Return the warning as one sentence for the log."""
        return (
            "another device uses this device's identity, or this device's boot counter was lost; if no "
            "state was lost, find the copy, stop it, and enrol it as a separate device with `sottovoce fleet "
            "join`"
        )


Effect = Request | Remember | DuplicateIdentity
