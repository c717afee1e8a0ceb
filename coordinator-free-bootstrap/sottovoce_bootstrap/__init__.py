"""Peer discovery without a coordinator, based on signed records, NewsCast views and an address book.

Only the modules in `sources` open network sockets.
"""

from sottovoce_bootstrap.address_book import AddressBook
from sottovoce_bootstrap.boot_counter import BootCounter
from sottovoce_bootstrap.contact import Contact
from sottovoce_bootstrap.effects import DuplicateIdentity, Effect, Remember, Request
from sottovoce_bootstrap.exchange import Entry, Exchange
from sottovoce_bootstrap.membership import Membership
from sottovoce_bootstrap.record import Author, PeerRecord
from sottovoce_bootstrap.settings import Settings
from sottovoce_bootstrap.verification import Verifier

__all__ = [
    "AddressBook",
    "Author",
    "BootCounter",
    "Contact",
    "DuplicateIdentity",
    "Effect",
    "Entry",
    "Exchange",
    "Membership",
    "PeerRecord",
    "Remember",
    "Request",
    "Settings",
    "Verifier",
]
