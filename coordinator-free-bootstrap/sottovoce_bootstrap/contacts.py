"""Whom a device can try although they are not in its view: its seeds, those who answered before, and candidates."""

import random
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Sequence

from sottovoce_bootstrap.contact import MAX_ENDPOINTS, Contact

CAPACITY = 500
"""Of the address book, in memory and on disk."""

CANDIDATES = 32
"""Contacts kept of what one source of them says."""


class Contacts:
    """The address book in memory, the seeds, and the sources' present contacts.

    Args:
        seeds: from the configuration; never dropped.
        book: who has answered before, the last one at the end.
        own: this device, which is none of them.
        rng: draws from sources that say too much.
    """

    def __init__(self, seeds: Sequence[Contact], book: Sequence[Contact], own: str, rng: random.Random) -> None:
        self._own = own
        self._dice = rng
        self._seeds = merged(seed for seed in seeds if seed.node_id != own)
        self._answered = OrderedDict((contact.node_id, contact) for contact in book if contact.node_id != own)
        self._unheard = dict(self._seeds)
        self._candidates: dict[str, dict[str, Contact]] = {}

    def __iter__(self) -> Iterator[str]:
        """The ids of all of them, once each."""
        yield from {*self._seeds, *self._answered, *self.candidates}

    @property
    def unheard(self) -> tuple[Contact, ...]:
        """Seeds that have not been heard of since the start."""
        return tuple(self._unheard.values())

    @property
    def candidates(self) -> list[str]:
        """Candidates that some source names, and that were not heard of since; once each."""
        return list(dict.fromkeys(node for said in self._candidates.values() for node in said))

    def learn(self, source: str, contacts: Iterable[Contact], known: Collection[str]) -> None:
        """Replaces a source's earlier contacts by its present ones; other sources' contacts stay.

        Args:
            source: its name.
            contacts: whom it names; of more than 32 that are news, chance decides who is kept.
            known: ids that are no news.
        """
        news = [one for node, one in merged(contacts).items() if node != self._own and node not in known]
        kept = self._dice.sample(news, min(CANDIDATES, len(news)))
        self._candidates[source] = {contact.node_id: contact for contact in kept}

    def is_wanted(self, node_id: str) -> bool:
        """Whether it is a seed or a candidate: a device must not wait an hour for the only one it knows."""
        return node_id in self._seeds or any(node_id in said for said in self._candidates.values())

    def find(self, node_id: str, announced: Contact | None) -> Contact | None:
        """How to reach someone.

        First where the configuration says, then where its record says or it last answered, then where sources say.
        """
        known = (
            self._seeds.get(node_id),
            announced or self._answered.get(node_id),
            *(said.get(node_id) for said in self._candidates.values()),
        )
        return merged(contact for contact in known if contact is not None).get(node_id)

    def heard(self, node_id: str) -> None:
        """A record of it has come."""
        self._unheard.pop(node_id, None)
        for said in self._candidates.values():
            said.pop(node_id, None)

    def answered(self, contact: Contact) -> None:
        """Notes that a device has answered just now."""
        self._answered[contact.node_id] = contact
        self._answered.move_to_end(contact.node_id)
        if len(self._answered) > CAPACITY:
            self._answered.popitem(last=False)


def merged(contacts: Iterable[Contact]) -> dict[str, Contact]:
    """Contacts merged by device, with all endpoints, the first ones at the front, as many as a contact may have."""
    found: dict[str, Contact] = {}
    for contact in contacts:
        before = found.get(contact.node_id)
        if before is not None:
            endpoints = tuple(dict.fromkeys((*before.endpoints, *contact.endpoints)))[: MAX_ENDPOINTS + 1]
            contact = Contact(contact.node_id, endpoints)
        found[contact.node_id] = contact
    return found
