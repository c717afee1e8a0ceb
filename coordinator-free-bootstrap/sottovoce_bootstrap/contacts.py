"""A device's contacts outside its view: seeds, devices that have answered before, and candidates."""

import random
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Sequence

from sottovoce_bootstrap.contact import MAX_ENDPOINTS, Contact

CAPACITY = 500
"""Maximum number of contacts in the address book, both in memory and on disk."""

CANDIDATES = 32
"""Maximum number of contacts stored from one source."""


class Contacts:
    """The seeds, the address book in memory, and the contacts that sources currently report.

    Args:
        seeds: the seeds, which are never dropped.
        book: contacts that have answered before, the most recent one last.
        own_id: this device's node id, which is excluded.
        rng: random number generator for sampling from sources with too many contacts.
    """

    def __init__(self, seeds: Sequence[Contact], book: Sequence[Contact], own_id: str, rng: random.Random) -> None:
        self._own_id = own_id
        self._rng = rng
        self._seeds = merge_contacts(seed for seed in seeds if seed.node_id != own_id)
        self._answered = OrderedDict((contact.node_id, contact) for contact in book if contact.node_id != own_id)
        self._unheard_seeds = dict(self._seeds)
        self._candidates: dict[str, dict[str, Contact]] = {}

    def __iter__(self) -> Iterator[str]:
        """Yield each contact's node id once."""
        yield from {*self._seeds, *self._answered, *self.candidates}

    @property
    def unheard_seeds(self) -> tuple[Contact, ...]:
        """The seeds from which no record has arrived since the start."""
        return tuple(self._unheard_seeds.values())

    @property
    def candidates(self) -> list[str]:
        """The ids of contacts that a source reports and from which no record has arrived since; each appears once."""
        return list(dict.fromkeys(node for contacts in self._candidates.values() for node in contacts))

    def learn(self, source: str, contacts: Iterable[Contact], known_ids: Collection[str]) -> None:
        """Replace a source's earlier contacts with its current ones; contacts from other sources are unchanged.

        Args:
            source: the source's name.
            contacts: contacts from the source; if more than 32 are new, a random sample of 32 is stored.
            known_ids: ids of devices that are not new.
        """
        excluded = {self._own_id, *known_ids}
        new_contacts = [contact for node, contact in merge_contacts(contacts).items() if node not in excluded]
        sample = self._rng.sample(new_contacts, min(CANDIDATES, len(new_contacts)))
        self._candidates[source] = {contact.node_id: contact for contact in sample}

    def is_wanted(self, node_id: str) -> bool:
        """Return whether a device is a seed or a candidate; for these, the maximum backoff of an hour is too long."""
        return node_id in self._seeds or any(node_id in contacts for contacts in self._candidates.values())

    def find(self, node_id: str, announced: Contact | None) -> Contact | None:
        """Return a device's contact, or None if the device is unknown.

        Its addresses are listed in this order: from the seed, from its record or last answer, and from sources.

        Args:
            node_id: the device's node id.
            announced: the contact in the device's record; None without a record.
        """
        sources = (
            self._seeds.get(node_id),
            announced or self._answered.get(node_id),
            *(contacts.get(node_id) for contacts in self._candidates.values()),
        )
        return merge_contacts(contact for contact in sources if contact is not None).get(node_id)

    def note_record(self, node_id: str) -> None:
        """Record that a device's record has arrived, so the device is no longer an unheard seed or a candidate."""
        self._unheard_seeds.pop(node_id, None)
        for contacts in self._candidates.values():
            contacts.pop(node_id, None)

    def note_answer(self, contact: Contact) -> None:
        """Record that a device has just answered."""
        self._answered[contact.node_id] = contact
        self._answered.move_to_end(contact.node_id)
        if len(self._answered) > CAPACITY:
            self._answered.popitem(last=False)


def merge_contacts(contacts: Iterable[Contact]) -> dict[str, Contact]:
    """Return one contact per device, with all its distinct endpoints in order, up to a contact's limit."""
    merged: dict[str, Contact] = {}
    for contact in contacts:
        previous = merged.get(contact.node_id)
        if previous is not None:
            endpoints = tuple(dict.fromkeys((*previous.endpoints, *contact.endpoints)))[: MAX_ENDPOINTS + 1]
            contact = Contact(contact.node_id, endpoints)
        merged[contact.node_id] = contact
    return merged
