"""Contacts of a device outside its view: its seeds, devices that answered before, and candidates."""

import random
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Sequence

from sottovoce_bootstrap.contact import MAX_ENDPOINTS, Contact

CAPACITY = 500
"""Capacity of the address book in contacts, in memory and on disk."""

CANDIDATES = 32
"""Number of contacts kept from one source."""


class Contacts:
    """Seeds, the address book in memory, and the contacts that sources currently give.

    Args:
        seeds: seeds from the configuration, which are never dropped.
        book: contacts that have answered before, the last one at the end.
        own: node id of this device, which is excluded.
        rng: source of randomness for draws from sources with too many contacts.
    """

    def __init__(self, seeds: Sequence[Contact], book: Sequence[Contact], own: str, rng: random.Random) -> None:
        self._own = own
        self._dice = rng
        self._seeds = merged(seed for seed in seeds if seed.node_id != own)
        self._answered = OrderedDict((contact.node_id, contact) for contact in book if contact.node_id != own)
        self._unheard = dict(self._seeds)
        self._candidates: dict[str, dict[str, Contact]] = {}

    def __iter__(self) -> Iterator[str]:
        """Yield the ids of all contacts, each once."""
        yield from {*self._seeds, *self._answered, *self.candidates}

    @property
    def unheard(self) -> tuple[Contact, ...]:
        """Return seeds from which no record has come since the start."""
        return tuple(self._unheard.values())

    @property
    def candidates(self) -> list[str]:
        """Return candidates that a source names and from which no record has come since; each once."""
        return list(dict.fromkeys(node for said in self._candidates.values() for node in said))

    def learn(self, source: str, contacts: Iterable[Contact], known: Collection[str]) -> None:
        """Replace a source's earlier contacts by its present ones; other sources' contacts stay.

        Args:
            source: name of the source.
            contacts: contacts from the source; of more than 32 new ones, a random selection is kept.
            known: ids of devices that are not new.
        """
        news = [one for node, one in merged(contacts).items() if node != self._own and node not in known]
        kept = self._dice.sample(news, min(CANDIDATES, len(news)))
        self._candidates[source] = {contact.node_id: contact for contact in kept}

    def is_wanted(self, node_id: str) -> bool:
        """Return whether a device is a seed or a candidate, which must not wait an hour for its next attempt."""
        return node_id in self._seeds or any(node_id in said for said in self._candidates.values())

    def find(self, node_id: str, announced: Contact | None) -> Contact | None:
        """Return the contact of a device; None if it is unknown.

        Addresses come first from the configuration, then from its record or last answer, then from the sources.
        """
        known = (
            self._seeds.get(node_id),
            announced or self._answered.get(node_id),
            *(said.get(node_id) for said in self._candidates.values()),
        )
        return merged(contact for contact in known if contact is not None).get(node_id)

    def note_record(self, node_id: str) -> None:
        """Note that a record of a device has arrived."""
        self._unheard.pop(node_id, None)
        for said in self._candidates.values():
            said.pop(node_id, None)

    def note_answer(self, contact: Contact) -> None:
        """Note that a device has just answered."""
        self._answered[contact.node_id] = contact
        self._answered.move_to_end(contact.node_id)
        if len(self._answered) > CAPACITY:
            self._answered.popitem(last=False)


def merged(contacts: Iterable[Contact]) -> dict[str, Contact]:
    """Return contacts merged by device, each with its endpoints in order, up to a contact's limit."""
    found: dict[str, Contact] = {}
    for contact in contacts:
        before = found.get(contact.node_id)
        if before is not None:
            endpoints = tuple(dict.fromkeys((*before.endpoints, *contact.endpoints)))[: MAX_ENDPOINTS + 1]
            contact = Contact(contact.node_id, endpoints)
        found[contact.node_id] = contact
    return found
