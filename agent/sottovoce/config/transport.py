"""Configuration sections for the connections to peers."""

import re
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from msgspec import Meta, Struct

from sottovoce.plugins import TRANSPORT, find, installed_plugins
from sottovoce.suggestions import LARGEST, invalid_key, suggest_name

OWN = ("grpc", "mqtt")
"""Names of Sottovoce's own transports."""

HOST_AND_PORT = r"^(\[[0-9a-fA-F:]+\]|[^:\s]+):[0-9]{1,5}$"
PLUGIN_ADDRESS = r"^[a-z][a-z0-9-]{0,15}://[!-~]{1,180}$"
Address = Annotated[str, Meta(pattern=HOST_AND_PORT, description="host:port, for example 10.0.0.7:7400")]
NodeId = Annotated[str, Meta(pattern=r"^[a-z2-7]{32}$", description="as printed by `sottovoce fleet show`")]


class PeerSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[[transport.peers]]`: a peer to which this device sends messages."""

    id: NodeId
    address: Annotated[
        str,
        Meta(
            pattern=rf"{HOST_AND_PORT}|^mqtt:[a-z0-9][a-z0-9-]{{0,31}}$|{PLUGIN_ADDRESS}",
            description="host:port, mqtt:REALM, or NAME://… for a transport from another package",
        ),
    ]

    @property
    def is_direct(self) -> bool:
        """Whether the address is host:port."""
        return re.match(HOST_AND_PORT, self.address) is not None


class MqttSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[transport.mqtt]`: the broker, which carries messages but is not trusted."""

    url: Annotated[
        Annotated[str, Meta(pattern=r"^mqtts?://(\[[0-9a-fA-F:]+\]|[^:/@\s]+)(:[0-9]{1,5})?/?$")] | None,
        Meta(description="mqtts://HOST:PORT, or mqtt:// without TLS; the ports are 8883 and 1883 by default"),
    ] = None
    realm: Annotated[
        str,
        Meta(
            pattern=r"^[a-z0-9][a-z0-9-]{0,31}$",
            description="public name of the broker, the same on all its devices; they are reached at mqtt:REALM",
        ),
    ] = "main"
    version: Annotated[
        Literal["5", "3.1.1"],
        Meta(
            description="MQTT version; with 3.1.1, a broker keeps a sleeping device's messages for ever, which the "
            "device refuses when they are outdated"
        ),
    ] = "5"
    ca: Annotated[
        Path | None, Meta(description="PEM file of CA certificates for the broker; by default the fleet's own CA")
    ] = None
    plaintext: Annotated[
        bool,
        Meta(description="allow mqtt:// to another host: messages stay sealed, but the network sees who sends to whom"),
    ] = False
    username: Annotated[
        str | None,
        Meta(description="user name, if the broker requires one; the hardened broker goes by certificates"),
    ] = None
    password_file: Annotated[Path | None, Meta(description="file with the password, readable only by its owner")] = None

    def __post_init__(self) -> None:
        """Check the URL, which may omit TLS only if `plaintext` is set or the broker is on this host."""
        if self.url is not None and not self.uses_tls and not self.is_local and not self.plaintext:
            raise invalid_key(
                "url", "without TLS, the broker must be on this host; use mqtts://, or set plaintext = true"
            )
        if self.url is not None and not 1 <= self.address[1] <= 65_535:
            raise invalid_key("url", "the port must be between 1 and 65535")
        if self.password_file is not None and self.username is None:
            raise invalid_key("username", "required with password_file")

    @property
    def uses_tls(self) -> bool:
        """Whether the connection uses TLS."""
        return self.url is not None and self.url.startswith("mqtts:")

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the broker."""
        split = urlsplit(self.url or "")
        return split.hostname or "", split.port or (8883 if self.uses_tls else 1883)

    @property
    def is_local(self) -> bool:
        """Whether the broker is on this host."""
        host = self.address[0]
        return host == "localhost" or host.startswith("127.") or host == "::1"


class TransportSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[transport]`: the addresses to listen on and to send to, and the timeouts."""

    use: Annotated[
        tuple[Annotated[str, Meta(pattern=r"^[a-z][a-z0-9-]{0,15}$")], ...],
        Meta(
            min_length=1,
            description="transports in order of preference: grpc (direct), mqtt (through a broker), or another "
            "package's; if one does not deliver a message, the device tries the next",
        ),
    ] = ("grpc",)
    listen: Annotated[Address, Meta(description="host:port to listen on with gRPC")] = "127.0.0.1:7400"
    announce: Annotated[
        Address | None,
        Meta(description="host:port at which peers reach this device, if not `listen`; required for 0.0.0.0"),
    ] = None
    peers: Annotated[
        tuple[PeerSection, ...],
        Meta(description="seeds of peer sampling; with static sampling, the peers to which this device sends"),
    ] = ()
    timeout: Annotated[
        float, Meta(gt=0, le=LARGEST, description="longest duration of one attempt to deliver, in seconds")
    ] = 10.0
    backoff: Annotated[
        float,
        Meta(
            gt=0,
            le=LARGEST,
            description="pause after the first failure, in seconds, before jitter; it doubles with each further one",
        ),
    ] = 1.0
    backoff_max: Annotated[
        float,
        Meta(
            gt=0,
            le=LARGEST,
            description="longest pause, in seconds; a broker is retried after at most 10, and a peer at once if it "
            "sends a message or reconnects to the broker",
        ),
    ] = 300.0

    mqtt: MqttSection = MqttSection()
    plugins: Annotated[
        dict[str, dict[str, Any]],
        Meta(
            description="a table [transport.plugins.NAME] for each transport of another package: `announce`, this "
            "device's address, and the transport's own settings"
        ),
    ] = {}

    def __post_init__(self) -> None:
        """Check the transports, their addresses and backoffs, and that no peer is listed twice."""
        if len(set(self.use)) < len(self.use):
            raise invalid_key("use", "a transport is listed twice; remove one of them")
        for name in self.use:
            self._check_plugin(name)
        if unused := [name for name in self.plugins if name not in self.use or name in OWN]:
            raise invalid_key(
                f"plugins.{unused[0]}", "transport.use lists no plug-in transport with this name; remove this table"
            )
        if "mqtt" in self.use and self.mqtt.url is None:
            raise invalid_key(
                "mqtt.url", "required, because transport.use includes mqtt; for example mqtts://broker:8883"
            )
        addresses = {f"peers[{i}].address": peer.address for i, peer in enumerate(self.peers) if peer.is_direct}
        announced = {} if self.announce is None else {"announce": self.announce}
        for key, address in {"listen": self.listen, **announced, **addresses}.items():
            if not 1 <= int(address.rpartition(":")[2]) <= 65_535:
                raise invalid_key(key, "the port must be between 1 and 65535")
        ids = [peer.id for peer in self.peers]
        for i, node in enumerate(ids):
            if node in ids[:i]:
                raise invalid_key(f"peers[{i}].id", "this peer is listed twice; remove one of them")
        if "grpc" in self.use and self.announce is None and self.listen.rpartition(":")[0] in ("0.0.0.0", "[::]"):  # noqa: S104
            raise invalid_key(
                "announce",
                f"{self.listen} means all of this machine's addresses; set the one at which peers reach this device",
            )
        if self.backoff > self.backoff_max:
            raise invalid_key("backoff", "longer than backoff_max; reduce it, or raise backoff_max")

    def _check_plugin(self, name: str) -> None:
        if name in OWN:  # a package that reuses such a name breaks only `plugins --check`, not the agent
            return
        plugin = find(TRANSPORT, name, OWN)
        if plugin is None:
            known_names = [*OWN, *installed_plugins(TRANSPORT)]
            similar = suggest_name(name, known_names)
            remedy = f"did you mean {similar}?" if similar else f"choose from {', '.join(known_names)}"
            raise invalid_key("use", f"no transport is named {name}; {remedy}")
        announce = self.plugins.get(name, {}).get("announce")
        if not (isinstance(announce, str) and re.match(PLUGIN_ADDRESS, announce) and announce.startswith(f"{name}://")):
            raise invalid_key(
                f"plugins.{name}.announce", f"required: set the address at which peers reach this device, {name}://…"
            )

    @property
    def announced_addresses(self) -> tuple[str, ...]:
        """Addresses at which peers reach this device, in order of preference."""
        addresses = {"grpc": self.announce or self.listen, "mqtt": f"mqtt:{self.mqtt.realm}"}
        addresses |= {name: str(table["announce"]) for name, table in self.plugins.items()}
        return tuple(addresses[name] for name in self.use)
