"""Configuration section for a device's identity and for the authority that it trusts to identify other devices."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from sottovoce.config.transport import Address
from sottovoce.invalid_key import LARGEST


class IdentitySection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[identity]`: who vouches for the fleet's devices, and how certificates are renewed."""

    mode: Annotated[
        Literal["fleet-ca", "external", "pinned"],
        Meta(
            description="how devices are authenticated: by the fleet's own CA, by another CA, or only by "
            "transport.peers; must match how the device joined"
        ),
    ] = "fleet-ca"
    enroller: Annotated[
        Address | None,
        Meta(
            description="host:port of `sottovoce fleet renew --serve`, which renews the certificate before it expires"
        ),
    ] = None
    look_every: Annotated[
        float, Meta(ge=0.05, le=LARGEST, description="seconds between checks for a new certificate or revocation list")
    ] = 5.0
