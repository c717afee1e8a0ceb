"""Configuration sections of the connections to peers."""

import re
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from msgspec import Meta, Struct

from sottovoce.invalid_key import LARGEST, invalid_key
from sottovoce.plugins import TRANSPORT, find, installed_plugins
from sottovoce.suggestions import suggestion

OWN = ("grpc", "mqtt")
"""Sottovoce's own transports."""

HOST_AND_PORT = r"^(\[[0-9a-fA-F:]+\]|[^:\s]+):[0-9]{1,5}$"
OF_PLUGIN = r"^[a-z][a-z0-9-]{0,15}://[!-~]{1,180}$"
Address = Annotated[str, Meta(pattern=HOST_AND_PORT, description="host:port, for example 10.0.0.7:7400")]
NodeId = Annotated[str, Meta(pattern=r"^[a-z2-7]{32}$", description="as `sottovoce fleet show` prints it")]


class PeerSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[[transport.peers]]`: one peer this device sends to."""

    id: NodeId
    address: Annotated[
        str,
        Meta(
            pattern=rf"{HOST_AND_PORT}|^mqtt:[a-z0-9][a-z0-9-]{{0,31}}$|{OF_PLUGIN}",
            description="host:port, mqtt:REALM, or NAME://… of another package's transport",
        ),
    ]

    @property
    def direct(self) -> bool:
        """Whether the address is host:port."""
        return re.match(HOST_AND_PORT, self.address) is not None


class MqttSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[transport.mqtt]`: the broker, which carries messages and is trusted with nothing."""

    url: Annotated[
        Annotated[str, Meta(pattern=r"^mqtts?://(\[[0-9a-fA-F:]+\]|[^:/@\s]+)(:[0-9]{1,5})?/?$")] | None,
        Meta(description="mqtts://HOST:PORT, or mqtt:// without TLS"),
    ] = None
    realm: Annotated[
        str,
        Meta(
            pattern=r"^[a-z0-9][a-z0-9-]{0,31}$", description="public name of the broker, the same on all its devices"
        ),
    ] = "main"
    version: Annotated[Literal["5", "3.1.1"], Meta(description="version of the protocol that the broker speaks")] = "5"
    ca: Annotated[
        Path | None, Meta(description="certificates, PEM, that vouch for the broker; without it the fleet's own")
    ] = None
    plaintext: Annotated[
        bool,
        Meta(description="allow mqtt:// to another host: the network then sees who talks to whom, when and how much"),
    ] = False
    username: Annotated[str | None, Meta(description="if the broker wants one; it sees the device's certificate")] = (
        None
    )
    password_file: Annotated[Path | None, Meta(description="file with the password, for its owner alone")] = None

    def __post_init__(self) -> None:
        """Check that TLS is absent only if the configuration says so."""
        if self.url is not None and not self.encrypted and not self.loopback and not self.plaintext:
            raise invalid_key(
                "url", "without TLS only a broker on this host may be used; write mqtts://, or plaintext = true"
            )
        if self.url is not None and not 1 <= self.address[1] <= 65_535:
            raise invalid_key("url", "the port must lie between 1 and 65535")
        if self.password_file is not None and self.username is None:
            raise invalid_key("username", "needed with password_file")

    @property
    def encrypted(self) -> bool:
        """Whether the connection is TLS."""
        return self.url is not None and self.url.startswith("mqtts:")

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the broker."""
        split = urlsplit(self.url or "")
        return split.hostname or "", split.port or (8883 if self.encrypted else 1883)

    @property
    def loopback(self) -> bool:
        """Whether the broker is on this host."""
        host = self.address[0]
        return host == "localhost" or host.startswith("127.") or host == "::1"


class TransportSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[transport]`: where to listen, whom to send to, and how long to wait."""

    use: Annotated[
        tuple[Annotated[str, Meta(pattern=r"^[a-z][a-z0-9-]{0,15}$")], ...],
        Meta(
            min_length=1,
            description="grpc: directly; mqtt: through a broker; or one that another package brings; the preferred one "
            "first",
        ),
    ] = ("grpc",)
    listen: Address = "127.0.0.1:7400"
    announce: Annotated[Address | None, Meta(description="where peers reach this device, if not at `listen`")] = None
    peers: tuple[PeerSection, ...] = ()
    timeout: Annotated[float, Meta(gt=0, le=LARGEST, description="seconds a call may take")] = 10.0
    backoff: Annotated[
        float, Meta(gt=0, le=LARGEST, description="first pause after a failed call, seconds, before jitter")
    ] = 1.0
    backoff_max: Annotated[float, Meta(gt=0, le=LARGEST, description="longest pause after failed calls, seconds")] = (
        300.0
    )

    mqtt: MqttSection = MqttSection()
    plugins: Annotated[
        dict[str, dict[str, Any]],
        Meta(description="a table for each transport in `use` that another package brings: `announce`, its address"),
    ] = {}

    def __post_init__(self) -> None:
        """Check that ports are valid, and that no peer is listed twice."""
        if len(set(self.use)) < len(self.use):
            raise invalid_key("use", "a transport is listed twice; keep one of them")
        for name in self.use:
            self._check_plugin(name)
        if unused := [name for name in self.plugins if name not in self.use or name in OWN]:
            raise invalid_key(
                f"plugins.{unused[0]}", "transport.use has no such transport of another package; leave it out"
            )
        if "mqtt" in self.use and self.mqtt.url is None:
            raise invalid_key(
                "mqtt.url", "needed, because transport.use has mqtt: the broker, for example mqtts://broker:8883"
            )
        addresses = {f"peers[{i}].address": peer.address for i, peer in enumerate(self.peers) if peer.direct}
        announced = {} if self.announce is None else {"announce": self.announce}
        for key, address in {"listen": self.listen, **announced, **addresses}.items():
            if not 1 <= int(address.rpartition(":")[2]) <= 65_535:
                raise invalid_key(key, "the port must lie between 1 and 65535")
        ids = [peer.id for peer in self.peers]
        for i, node in enumerate(ids):
            if node in ids[:i]:
                raise invalid_key(f"peers[{i}].id", "this peer is listed twice; keep one of them")
        if "grpc" in self.use and self.announce is None and self.listen.rpartition(":")[0] in ("0.0.0.0", "[::]"):  # noqa: S104
            raise invalid_key(
                "announce",
                f"{self.listen} is every address of this machine; give the one at which peers reach this device",
            )
        if self.backoff > self.backoff_max:
            raise invalid_key("backoff", "longer than backoff_max; the first pause is the shortest")

    def _check_plugin(self, name: str) -> None:
        if name in OWN:  # a package that takes such a name breaks only `plugins --check`, not the agent
            return
        plugin = find(TRANSPORT, name, OWN)
        if plugin is None:
            known = [*OWN, *installed_plugins(TRANSPORT)]
            near = suggestion(name, known)
            remedy = f"did you mean {near}?" if near else f"there are {', '.join(known)}"
            raise invalid_key("use", f"no transport is named {name}; {remedy}")
        announce = self.plugins.get(name, {}).get("announce")
        if not isinstance(announce, str) or not re.match(OF_PLUGIN, announce) or not announce.startswith(f"{name}://"):
            raise invalid_key(
                f"plugins.{name}.announce", f"needed: the address at which peers reach this device, {name}://…"
            )

    @property
    def announced(self) -> tuple[str, ...]:
        """Addresses at which peers reach this device, the preferred one first."""
        ways = {"grpc": self.announce or self.listen, "mqtt": f"mqtt:{self.mqtt.realm}"}
        ways |= {name: str(table["announce"]) for name, table in self.plugins.items()}
        return tuple(ways[name] for name in self.use)
