"""A device's contact: its id and addresses. Contacts are not trusted, because TLS verifies the device's identity."""

import ipaddress
import re
from dataclasses import dataclass

from sottovoce.errors import MessageRefused

MAX_ENDPOINTS = 4
MAX_TRANSPORTS = 4

_NODE_ID = re.compile(r"[a-z2-7]{32}")
_TRANSPORT = re.compile(r"[a-z][a-z0-9-]{0,15}")
_BROKER_ENDPOINT = re.compile(r"mqtt:[a-z0-9][a-z0-9-]{0,31}")
_PLUGIN_ENDPOINT = re.compile(r"[a-z][a-z0-9-]{0,15}://[!-~]{1,180}")
_ENDPOINT = re.compile(
    r"(?:\[(?P<six>[0-9a-fA-F:.]{2,45})\]|(?P<host>[A-Za-z0-9][A-Za-z0-9._-]{0,251})):(?P<port>[1-9][0-9]{0,4})"
)

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True)
class Contact:
    """A device that can be contacted.

    Attributes:
        node_id: node id of the device that must answer.
        endpoints: 1 to 5 addresses in the order in which to try them: host:port, or mqtt:REALM for a device that is
            reached through the broker with that public name.

    Raises:
        MessageRefused: with reason `record` if an attribute is malformed.
    """

    node_id: str
    endpoints: tuple[str, ...]

    def __post_init__(self) -> None:
        """Check that both attributes are well-formed."""
        check_node_id(self.node_id)
        if not 1 <= len(self.endpoints) <= MAX_ENDPOINTS + 1:
            raise MessageRefused("record", f"a contact does not have 1 to {MAX_ENDPOINTS + 1} endpoints")
        for endpoint in self.endpoints:
            check_endpoint(endpoint)


def check_node_id(node_id: str) -> None:
    """Raise MessageRefused (`record`) unless a node id is well-formed."""
    if not _NODE_ID.fullmatch(node_id):
        raise MessageRefused("record", "a node id must be 32 characters of a-z and 2-7")


def check_transport(transport: str) -> None:
    """Raise MessageRefused (`record`) unless a string is a valid transport name."""
    if not _TRANSPORT.fullmatch(transport):
        raise MessageRefused("record", "a transport name must be 1 to 16 characters of a-z, 0-9 and -")


def check_endpoint(endpoint: str) -> None:
    """Raise MessageRefused (`record`) unless an endpoint is mqtt:REALM, NAME://…, or one device's host:port."""
    if _BROKER_ENDPOINT.fullmatch(endpoint) or _PLUGIN_ENDPOINT.fullmatch(endpoint):
        return
    match = _ENDPOINT.fullmatch(endpoint)
    if not match or int(match["port"]) > 65_535:
        raise MessageRefused(
            "record", "an endpoint must be host:port with a port from 1 to 65535, mqtt:REALM, or NAME://…"
        )
    try:
        address = ipaddress.ip_address(match["six"] or match["host"])
    except ValueError as error:
        if match["six"]:
            raise MessageRefused("record", "the brackets in an endpoint must contain an IPv6 address") from error
        return
    if address.is_unspecified or address.is_multicast:
        raise MessageRefused("record", "an endpoint must be a single device's address, not unspecified or multicast")


def prefix(endpoint: str) -> Network | None:
    """Return the public network that contains an endpoint, an IPv4 /24 or IPv6 /48, or None if there is none.

    The result is None for private, loopback and other local addresses, for host names, which are not resolved, and for
    brokers.
    """
    host = endpoint.rpartition(":")[0].strip("[]")
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    if not address.is_global:
        return None
    return ipaddress.ip_network((address, 24 if address.version == 4 else 48), strict=False)
