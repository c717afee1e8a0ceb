"""Device identity: a device's keys and certificate, the fleet that vouches for it, and how it identifies peers."""

from sottovoce.fleet.certificates import Validity
from sottovoce.fleet.identity import (
    Identity,
    load,
    verify_credential,
    verify_device_certificate,
    verify_peer_certificate,
)
from sottovoce.fleet.keys import node_id
from sottovoce.fleet.names import peer_dns_name
from sottovoce.fleet.trust import Trust
from sottovoce.fleet.verification import Subject

__all__ = [
    "Identity",
    "Subject",
    "Trust",
    "Validity",
    "load",
    "node_id",
    "peer_dns_name",
    "verify_credential",
    "verify_device_certificate",
    "verify_peer_certificate",
]
