"""Contacts from the invitation by which this device joined: the devices that its inviter knew then."""

from pathlib import Path

from sottovoce.errors import IdentityError, MessageRefused
from sottovoce.identity.invitation import SEEDS, read_seeds

from sottovoce_bootstrap.contact import Contact


def invitation_contacts(state: Path) -> list[Contact]:
    """Return the contacts in a state directory; none for a device that joined without an invitation.

    Raises:
        IdentityError: if they cannot be read, or are damaged.
    """
    try:
        return [Contact(seed.id, seed.endpoints) for seed in read_seeds(state).contacts]
    except MessageRefused as error:
        raise IdentityError(f"{state / SEEDS}: {error}: remove it, and list a peer under transport.peers") from error
