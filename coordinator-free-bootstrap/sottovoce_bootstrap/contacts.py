"""Whom a device can try although they are not in its view: its seeds, and those who answered before."""

from collections import OrderedDict
from collections.abc import Iterator, Sequence

from sottovoce_bootstrap.contact import MAX_ENDPOINTS, Contact

CAPACITY = 500
"""Of the address book, in memory and on disk."""


class Contacts:
    """The address book in memory, and the seeds.

    Args:
        seeds: from the configuration; never dropped.
        book: who has answered before, the last one at the end.
        own: this device, which is neither.
    """

    def __init__(self, seeds: Sequence[Contact], book: Sequence[Contact], own: str) -> None:
        self._seeds = {seed.node_id: seed for seed in seeds if seed.node_id != own}
        self._answered = OrderedDict((contact.node_id, contact) for contact in book if contact.node_id != own)
        self._unheard = dict(self._seeds)

    def __iter__(self) -> Iterator[str]:
        """The ids of all of them, once each."""
        yield from self._seeds.keys() | self._answered.keys()

    @property
    def unheard(self) -> tuple[Contact, ...]:
        """Seeds that have not been heard of since the start."""
        return tuple(self._unheard.values())

    def is_seed(self, node_id: str) -> bool:
        """Whether the configuration names it: a device must not wait an hour for the only one it knows."""
        return node_id in self._seeds

    def find(self, node_id: str, announced: Contact | None) -> Contact | None:
        """How to reach somebody: first where the configuration says, then where its record says or it last answered."""
        seed, known = self._seeds.get(node_id), announced or self._answered.get(node_id)
        if seed is None or known is None:
            return seed or known
        endpoints = dict.fromkeys((*seed.endpoints, *known.endpoints))
        return Contact(node_id, tuple(endpoints)[: MAX_ENDPOINTS + 1])

    def heard(self, node_id: str) -> None:
        """A record of it has come."""
        self._unheard.pop(node_id, None)

    def answered(self, contact: Contact) -> None:
        """It has answered just now."""
        self._answered[contact.node_id] = contact
        self._answered.move_to_end(contact.node_id)
        if len(self._answered) > CAPACITY:
            self._answered.popitem(last=False)
