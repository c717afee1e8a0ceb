"""Fleet and device names as they appear in certificates."""

import re

from sottovoce.errors import IdentityError

_FLEET_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")
_DEVICE_URI = re.compile(r"spiffe://(?P<fleet>[a-z0-9-]+)/device/[a-z2-7]{32}")


def check_fleet_name(name: str) -> str:
    """Return a fleet name unchanged if it is valid.

    Raises:
        IdentityError: if the name is not 1 to 40 lowercase letters, digits and inner hyphens.
    """
    if not _FLEET_NAME.fullmatch(name):
        raise IdentityError(
            f"{name!r} is not a valid fleet name: use 1 to 40 lowercase letters, digits and hyphens, without a hyphen "
            "at either end"
        )
    return name


def peer_dns_name(node_id: str, fleet: str) -> str:
    """Return the DNS name in a device's certificate; TLS clients verify this name but never resolve it."""
    return f"{node_id}.{fleet}.internal"


def enroller_dns_name(fleet: str) -> str:
    """Return the DNS name in an enroller's certificate; it cannot equal a device's, which has 32 base32 characters."""
    return f"enroller.{fleet}.internal"


def device_uri(node_id: str, fleet: str) -> str:
    """Return the SPIFFE id in a device's certificate."""
    return f"spiffe://{fleet}/device/{node_id}"


def fleet_in_uri(uri: str) -> str | None:
    """Return the fleet name in a device's SPIFFE id, or None if the URI is not a device's SPIFFE id."""
    match = _DEVICE_URI.fullmatch(uri)
    return match["fleet"] if match and _FLEET_NAME.fullmatch(match["fleet"]) else None
