"""Configuration section for metrics and health endpoints of a running device."""

from ipaddress import ip_address
from typing import Annotated

from msgspec import Meta, Struct

from sottovoce.config.transport import HOST_AND_PORT
from sottovoce.invalid_key import invalid_key


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
