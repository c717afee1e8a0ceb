"""Contacts from the invitation with which this device joined its fleet."""

from pathlib import Path

from sottovoce.errors import IdentityError, MessageRefused
from sottovoce.fleet.invitation import SEEDS, read_seeds

from sottovoce_bootstrap.contact import Contact


def invitation_contacts(state: Path) -> list[Contact]:
    """Return the invitation's contacts from a state directory; empty if the device joined without an invitation.

    Raises:
        IdentityError: if the contacts cannot be read or are corrupt.
    """
    try:
        return [Contact(seed.id, seed.endpoints) for seed in read_seeds(state).contacts]
    except MessageRefused as error:
        raise IdentityError(
            f"{state / SEEDS}: {error}: delete this file, and list a peer under transport.peers"
        ) from error
