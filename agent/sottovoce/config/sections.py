"""Configuration sections for identity, peer discovery and monitoring."""

from ipaddress import ip_address
from typing import Annotated, Literal

from msgspec import Meta, Struct

from sottovoce.config.transport import HOST_AND_PORT, Address
from sottovoce.suggestions import LARGEST, invalid_key


class ObserveSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[observe]`: metrics and health over HTTP, for anyone who can reach the address."""

    metrics: Annotated[
        Annotated[str, Meta(pattern=HOST_AND_PORT)] | None,
        Meta(
            description="host:port for /metrics, /livez and /readyz, for example 127.0.0.1:9464; if not set, no port "
            "is opened; requires sottovoce[metrics]"
        ),
    ] = None
    allow_remote: Annotated[
        bool, Meta(description="allow an address that other machines can reach; clients are not authenticated")
    ] = False

    def __post_init__(self) -> None:
        """Check that the address is valid, and reachable from other machines only if `allow_remote` is set."""
        if self.metrics is None:
            return
        host, port = self.address
        if not 1 <= port <= 65_535:
            raise invalid_key("metrics", "the port must be between 1 and 65535")
        try:
            ip_address(host)
        except ValueError:
            raise invalid_key(
                "metrics", "must be an IP address and a port, with an [IPv6] address in brackets"
            ) from None
        if not self.is_local and not self.allow_remote:
            raise invalid_key(
                "metrics",
                "other machines could reach this address; choose 127.0.0.1, or set allow_remote = true and restrict "
                "access with a firewall",
            )

    @property
    def address(self) -> tuple[str, int]:
        """Host and port; an empty host and port 0 if not configured."""
        host, _, port = (self.metrics or ":0").rpartition(":")
        return host[1:-1] if host.startswith("[") and host.endswith("]") else host, int(port)

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach the address."""
        return ip_address(self.address[0]).is_loopback


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


class MembershipSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[membership]`: how this device finds other devices."""

    sampling: Annotated[
        Literal["newscast", "static"],
        Meta(
            description="newscast: peers are sampled, starting from the peers under [transport]; static: only the "
            "peers under [transport] are used"
        ),
    ] = "newscast"
    period: Annotated[
        float, Meta(ge=0.05, le=86_400, description="seconds between view exchanges, the same for the whole fleet")
    ] = 60.0
    view_size: Annotated[int, Meta(ge=20, le=100, description="number c of entries in the view")] = 30
    warm_size: Annotated[int, Meta(ge=1, le=12, description="number of sampled peers to which the learner sends")] = 6
    mdns: Annotated[
        bool,
        Meta(
            description="find peers on the local network, and announce this device there; requires sottovoce[discovery]"
        ),
    ] = False
    dns: Annotated[
        Annotated[str, Meta(pattern=r"^[A-Za-z0-9_]([A-Za-z0-9._-]{0,220}[A-Za-z0-9.])?$")] | None,
        Meta(description="domain whose SRV records _sottovoce._tcp list peers; requires sottovoce[discovery]"),
    ] = None

    def __post_init__(self) -> None:
        """Check that static sampling is not combined with peer discovery."""
        if self.sampling == "static" and (self.mdns or self.dns):
            key = "mdns" if self.mdns else "dns"
            raise invalid_key(key, "static sampling uses only the peers under [transport]; choose newscast")
