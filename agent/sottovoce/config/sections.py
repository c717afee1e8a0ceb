"""Sections of a configuration, except those for the learner, transports and feeds."""

from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct

from sottovoce.config.feed import is_broker_url
from sottovoce.config.transport import HOST_AND_PORT, Address
from sottovoce.plugins import METER_SOURCE, installed_plugins
from sottovoce.privacy.cell import Cell
from sottovoce.suggestions import LARGEST, invalid_key

_MAX_EPSILON = 500.0
_MAX_RECORDS = 10_000_000

BytesPerDay = Annotated[int, Meta(ge=2**20, le=2**50)]


class AgentSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[agent]`: this device's state directory, log and sockets."""

    state: Annotated[Path, Meta(description="directory created by `sottovoce fleet join`")]
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Annotated[
        Literal["text", "json"], Meta(description="text: readable lines; json: one JSON object per line")
    ] = "text"
    bytes_per_day: Annotated[
        BytesPerDay,
        Meta(
            description="maximum number of bytes that the agent writes per UTC day, in all files together; it slows "
            "down to spread these writes evenly"
        ),
    ] = 2**28
    readers_socket: Annotated[
        Path | None,
        Meta(description="second socket, on which the agent's group may request only the status and the model"),
    ] = None


class DataSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[data]`: the local records, and all public facts about them."""

    source: Annotated[str, Meta(description="data SPEC, for example npz:/var/lib/meter/records.npz")]
    features: Annotated[int, Meta(ge=1, le=1_000_000, description="number of columns in the feature matrix; public")]
    classes: Annotated[
        int,
        Meta(
            ge=1,
            le=10_000,
            description="number of classes, with labels 0 … classes-1; with 1, the last column is predicted; public",
        ),
    ]
    expected_records: Annotated[
        float,
        Meta(gt=0, le=_MAX_RECORDS, description="number of records that a device is expected to have; public"),
    ]
    bounds: Annotated[
        tuple[float, float] | None, Meta(description="declared range of every feature; values are clamped to it")
    ] = None
    ranges: Annotated[
        Literal["declared", "training"],
        Meta(description="source of the feature ranges; training: computed from all records, so no ε is guaranteed"),
    ] = "declared"
    windows: Annotated[
        tuple[int, int] | None,
        Meta(
            description="first and last window whose records may be used, inclusive, for example [2026-01-01, "
            "2035-12-31]; public"
        ),
    ] = None
    transform: Annotated[
        str, Meta(min_length=1, max_length=200, description="declared feature transform, applied to each record")
    ] = "centred-unit"
    columns: Annotated[
        tuple[Annotated[str, Meta(max_length=200)], ...],
        Meta(description="public names of the features, in order, with units; devices whose names differ do not mix"),
    ] = ()
    labels: Annotated[
        tuple[Annotated[str, Meta(max_length=200)], ...],
        Meta(description="public names of the labels 0 … classes-1, in order; devices whose names differ do not mix"),
    ] = ()
    public: Annotated[
        str | None,
        Meta(description="pdsl: data SPEC of public labelled records, which are used to score models"),
    ] = None

    def __post_init__(self) -> None:
        """Check the bounds, the names and the windows, and that a feed's source contains no credentials."""
        kind, _, location = self.source.partition("#")[0].partition(":")
        if kind == "feed" and (
            "@" in self.source or not (is_broker_url(location) or location in installed_plugins(METER_SOURCE))
        ):
            raise invalid_key(
                "source",
                "must be `feed:` followed by mqtt://HOST:PORT, the address of the home's broker, or by the name in "
                "feed.source; put a user name in feed.username, and a password in the file feed.password_file",
            )
        if self.bounds is not None and not (-LARGEST <= self.bounds[0] < self.bounds[1] <= LARGEST):
            raise invalid_key("bounds", "must be two finite numbers, the lower first")
        for key, names, count in (("columns", self.columns, self.features), ("labels", self.labels, self.classes)):
            if duplicates := [name for i, name in enumerate(names) if name in names[:i]]:
                raise invalid_key(key, f"{duplicates[0]} is listed twice; list each name once")
            if names and len(names) != count:
                raise invalid_key(
                    key, f"lists {len(names)} names instead of {count}: list all of them, in order, or none"
                )
        if self.windows is not None and not (0 <= self.windows[0] <= self.windows[1] < 2**63):
            raise invalid_key("windows", "must be two dates or two non-negative numbers, the earlier first")


class CellSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[privacy.cell]`: sizes of the device groups that share their noise, and limits on the trust placed in them."""

    min: Annotated[int, Meta(ge=2, le=1024, description="minimum number of devices in a round")] = 8
    max: Annotated[int, Meta(ge=2, le=1024, description="maximum number of devices in a round")] = 1000
    colluding: Annotated[
        int,
        Meta(
            ge=0,
            le=1000,
            description="maximum number of devices in the whole fleet that may share everything they know with each "
            "other and with an eavesdropper",
        ),
    ] = 1
    threshold: Annotated[
        float, Meta(gt=0.5, le=1, description="fraction of a round's devices that must remain for its sum to be opened")
    ] = 0.7
    spare: Annotated[
        Annotated[int, Meta(ge=0, le=1000)] | None,
        Meta(
            description="number of rounds that may fail, which are charged in addition to the planned rounds; by "
            "default 1, or 0 if the threshold leaves no room for a dishonest device"
        ),
    ] = None

    @property
    def size_limits(self) -> Cell:
        """The size limits that these settings define for a cell."""
        cell = Cell(self.min, self.max, self.colluding, self.threshold)
        return replace(cell, spare=cell.default_spare if self.spare is None else self.spare)

    def __post_init__(self) -> None:
        """Check that every roster can be opened and protects at least one member."""
        if (defect := self.size_limits.defect) is not None:
            raise invalid_key(*defect)


class PrivacySection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[privacy]`: the privacy budget, which must match the budget with which the ledger was created."""

    epsilon: Annotated[float, Meta(gt=0, description="total ε")] = 2.0
    delta: Annotated[float, Meta(gt=0, lt=1, description="total δ")] = 1e-5
    unit: Annotated[
        Literal["record", "window", "device"] | None,
        Meta(
            description="privacy unit: a record, a window of records such as a day, or the whole device; by default "
            "device for average, and record for other learners, or window if they learn from a meter's feed"
        ),
    ] = None
    neighbouring: Annotated[
        Literal["add-remove", "replace-one"] | None,
        Meta(
            description="neighbouring relation; by default the learner's own, which is add-remove for most learners "
            "and replace-one for some, such as golf"
        ),
    ] = None
    epsilon_per: Annotated[
        Literal["total", "round"],
        Meta(description="round: ε applies to one round, exactly as stated in the paper, and the total is printed"),
    ] = "total"
    noise: Annotated[
        Literal["local", "cell"] | None,
        Meta(
            description="local: each device is protected by its own noise; cell: by the noise of all devices in a "
            "secure sum, which reveals only the sum; by default cell for group-sgd, otherwise local"
        ),
    ] = None
    cell: CellSection | None = None
    allow_unproved: Annotated[bool, Meta(description="run even if no ε is proved")] = False

    def __post_init__(self) -> None:
        """Check the budget and the cell; an infinite ε, which promises nothing, is accepted for testbeds."""
        if _MAX_EPSILON < self.epsilon < float("inf"):
            raise invalid_key("epsilon", f"nothing is promised above {_MAX_EPSILON:g}; set a smaller ε")
        if self.cell is not None and self.noise == "local":
            raise invalid_key("cell", 'requires noise = "cell"; set noise, or remove this table')


class TaskSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[task]`: facts about a task that the whole fleet shares, in addition to [data] and [learner]."""

    name: Annotated[str, Meta(max_length=200, description="task name; devices with different names do not mix")] = ""
    epoch: Annotated[int, Meta(ge=0, le=2**53, description="task epoch; devices with different epochs do not mix")] = 0
    epsilon: Annotated[
        Annotated[float, Meta(gt=0, le=_MAX_EPSILON)] | None,
        Meta(description="maximum ε that a device spends; each device chooses its own ε up to this limit"),
    ] = None
    steps: Annotated[
        Annotated[int, Meta(ge=0, le=1_000_000)] | None,
        Meta(
            description="maximum number of steps that a device takes; each device chooses its own number up to this "
            "limit; if not set, all devices take the same number"
        ),
    ] = None


class LedgerSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[ledger]`: conditions on this device's ledger that must hold before anything is released."""

    echoes: Annotated[
        int,
        Meta(
            ge=1,
            le=1000,
            description="number of peers that must confirm after each startup that they know of no newer ledger of "
            "this device",
        ),
    ] = 1
    alone: Annotated[
        bool,
        Meta(
            description="true: release without asking any peer; the operator guarantees that no copy of the ledger was "
            "restored"
        ),
    ] = False
    bytes_per_day: Annotated[
        BytesPerDay,
        Meta(
            description="maximum number of bytes that the ledger writes per UTC day; the device slows down to spread "
            "these writes evenly"
        ),
    ] = 2**26


class VaultSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[vault]`: the graphs that the vault may load, and the settings of a separate vault process.

    The agent and a separate vault read the same file.
    """

    socket: Annotated[
        Path | None, Meta(description="Unix socket of `sottovoce vault run`; if not set, the vault runs in the agent")
    ] = None
    directory: Annotated[
        Path | None, Meta(description="the vault's own directory with its ledger, created by `fleet join --vault`")
    ] = None
    agent_user: Annotated[
        str | None, Meta(description="user who may query the vault, by name or number; by default the vault's own user")
    ] = None
    patience: Annotated[
        float,
        Meta(gt=0, le=300, description="seconds to wait for an unavailable vault, after which the agent restarts"),
    ] = 120.0
    tasks: Annotated[
        Literal["any", "signed"],
        Meta(description="signed: only tasks signed by the fleet may release anything, and each has its own ε"),
    ] = "any"
    policy: Annotated[
        Path | None,
        Meta(
            description="policy.toml, which states what the owner allows the fleet's signed tasks to do; without it, "
            "they may do everything within ε"
        ),
    ] = None
    graph_directory: Annotated[
        Path | None, Meta(description="directory of the .onnx files to which the fleet's signed tasks refer")
    ] = None
    graphs: Annotated[
        tuple[Annotated[str, Meta(pattern="^sha256:[0-9a-f]{64}$")], ...],
        Meta(description="sha256:HEX of each .onnx file allowed as learner.model, in addition to the package's own"),
    ] = ()

    def __post_init__(self) -> None:
        """Check that a separate vault has both a socket and a directory."""
        if (self.socket is None) != (self.directory is None):
            missing = "socket" if self.socket is None else "directory"
            raise invalid_key(missing, "a separate vault requires both socket and directory; set both or neither")


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
