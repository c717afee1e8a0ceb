"""Contacts from DNS, as SRV records of `_sottovoce._tcp.DOMAIN` (RFC 2782) that the domain's owner maintains.

The first label of a record's target is the node id of the device at that address, as in the certificate's DNS name:

    _sottovoce._tcp.example.org.                    SRV 0 0 7400 krsxg5ctmvrxezlumuqhg33nm54gi2lu.example.org.
    krsxg5ctmvrxezlumuqhg33nm54gi2lu.example.org.   A   192.0.2.7

Priorities and weights are ignored, because any device that answers is sufficient. Unsigned records are sufficient,
because TLS proves the identity of a device that answers.
"""

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sottovoce.errors import ConfigError, MessageRefused, NetworkError

from sottovoce_bootstrap.contact import Contact
from sottovoce_bootstrap.contacts import merge_contacts
from sottovoce_bootstrap.sources.source import MAX_CONTACTS

if TYPE_CHECKING:
    from dns.asyncresolver import Resolver

LOOK_SECONDS = 10.0


class DnsSource:
    """A source that reads contacts from DNS records.

    Args:
        domain: the domain whose records to read.
        rng: random number generator for sampling from a domain that lists too many devices.
        resolver: the resolver to query; None for the system's resolver, whose settings are read again for each query.

    Raises:
        ConfigError: if the domain name is not valid, or the package dnspython is not installed.
    """

    name = "dns"

    def __init__(self, domain: str, rng: random.Random, resolver: "Resolver | None" = None) -> None:
        try:
            import dns.asyncresolver
            import dns.exception
            import dns.name
        except ImportError as error:
            raise ConfigError(
                "membership.dns requires the package dnspython; install sottovoce[discovery], or remove membership.dns"
            ) from error
        try:
            self._question = dns.name.from_text(f"_sottovoce._tcp.{domain.rstrip('.')}.")
        except (dns.exception.DNSException, UnicodeError) as error:
            raise ConfigError(f"membership.dns: {domain!r} is not a valid domain name ({error})") from error
        self._rng = rng
        self._resolver = resolver

    async def look(self) -> Sequence[Contact]:
        """Read contacts from the domain's SRV records; see Source.look."""
        from dns import asyncresolver, exception
        from dns.rdtypes.IN.SRV import SRV

        try:
            resolver = self._resolver or asyncresolver.Resolver()
            answer = await resolver.resolve(self._question, "SRV", lifetime=LOOK_SECONDS, search=False)
        except (exception.DNSException, OSError) as error:
            raise NetworkError(f"{self._question}: no SRV records can be read ({error})") from error
        records = [record for record in answer if isinstance(record, SRV)]
        sampled = self._rng.sample(records, min(MAX_CONTACTS, len(records)))
        candidates = (_contact(record.target.to_text(omit_final_dot=True), record.port) for record in sampled)
        contacts = tuple(merge_contacts(contact for contact in candidates if contact is not None).values())
        if not contacts:
            raise NetworkError(
                f"{self._question}: none of the {len(records)} SRV records identifies a device; each target must "
                "be ID.DOMAIN, with the id printed by `sottovoce fleet show`"
            )
        return contacts

    async def close(self) -> None:
        """Do nothing, because this source has nothing to close; see Source.close."""


def _contact(target: str, port: int) -> Contact | None:
    """Return the contact at a target, or None if the target's first label is not a node id."""
    try:
        return Contact(target.partition(".")[0].lower(), (f"{target}:{port}",))
    except MessageRefused:
        return None
