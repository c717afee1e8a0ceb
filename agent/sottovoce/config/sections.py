"""Sections of a configuration, except those for the learner, transports and feeds."""

from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct

from sottovoce.config.feed import OWN_SOURCES, is_broker_url
from sottovoce.config.transport import HOST_AND_PORT, Address
from sottovoce.plugins import METER_SOURCE, installed_plugins
from sottovoce.privacy.cell import Cell
from sottovoce.suggestions import LARGEST, invalid_key

_MAX_EPSILON = 500.0
_MAX_RECORDS = 10_000_000

BytesPerDay = Annotated[int, Meta(ge=2**20, le=2**50)]


class AgentSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[agent]`: this device's state directory, log and sockets."""

    state: Annotated[
        Path, Meta(description="directory that `sottovoce fleet join` created; a path of at most about 90 characters")
    ]
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="the least severe lines that are logged")
    ] = "info"
    log_format: Annotated[
        Literal["text", "json"], Meta(description="text: readable lines; json: one JSON object per line")
    ] = "text"
    bytes_per_day: Annotated[
        BytesPerDay,
        Meta(
            description="bytes that the agent may write to all files in a UTC day: a quarter at once, the rest evenly; "
            "beyond that, it rests between cycles"
        ),
    ] = 2**28
    readers_socket: Annotated[
        Path | None,
        Meta(description="second Unix socket, on which the agent's group may request only the status and the model"),
    ] = None


class DataSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[data]`: the local records, and all public facts about them."""

    source: Annotated[str, Meta(description="data SPEC, for example npz:/var/lib/meter/records.npz")]
    features: Annotated[int, Meta(ge=1, le=1_000_000, description="columns in the feature matrix; public")]
    classes: Annotated[
        int,
        Meta(
            ge=1,
            le=10_000,
            description="classes, with labels 0 … classes-1; 1: a regression on the last column; public",
        ),
    ]
    expected_records: Annotated[
        float,
        Meta(
            gt=0,
            le=_MAX_RECORDS,
            description="expected records per device, by which sums are divided; for a feed, records per "
            "day, 44 per meter; public",
        ),
    ]
    bounds: Annotated[
        tuple[float, float] | None,
        Meta(description="declared range of every feature; values are clamped to it; by default the source's"),
    ] = None
    ranges: Annotated[
        Literal["declared", "training"],
        Meta(description="training: the ranges are computed from all records, so no ε holds; only in testbeds"),
    ] = "declared"
    windows: Annotated[
        tuple[int, int] | None,
        Meta(
            description="first and last window whose records may be used, inclusive: dates such as [2026-01-01, "
            "2035-12-31], days since 1970-01-01, or numbers of other windows from 0; public"
        ),
    ] = None
    transform: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=200,
            description="transform of each record, by name or by its steps; for a model with a graph, the default is "
            "standard",
        ),
    ] = "centred-unit"
    columns: Annotated[
        tuple[Annotated[str, Meta(max_length=200)], ...],
        Meta(description="public names of all features, in order, with units; devices whose names differ do not mix"),
    ] = ()
    labels: Annotated[
        tuple[Annotated[str, Meta(max_length=200)], ...],
        Meta(description="public names of all labels, in order; devices whose names differ do not mix"),
    ] = ()
    public: Annotated[
        str | None,
        Meta(description="pdsl: data SPEC of public labelled records, which are used to score models"),
    ] = None

    def __post_init__(self) -> None:
        """Check the bounds, the names and the windows, and that a feed's source contains no credentials."""
        kind, _, location = self.source.partition("#")[0].partition(":")
        if kind == "feed" and ("@" in self.source or not (is_broker_url(location) or location in _meter_sources())):
            raise invalid_key(
                "source",
                "must be `feed:` followed by mqtt://HOST:PORT, the address of the home's broker, or by the name in "
                f"feed.source, one of {', '.join(_meter_sources())}; put a user name in feed.username, and a password "
                "in the file feed.password_file",
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


def _meter_sources() -> list[str]:
    return sorted({*OWN_SOURCES, *installed_plugins(METER_SOURCE)})


class CellSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[privacy.cell]`: sizes of the device groups that share their noise, and limits on the trust placed in them."""

    min: Annotated[int, Meta(ge=2, le=1024, description="fewest devices in a round")] = 8
    max: Annotated[int, Meta(ge=2, le=1024, description="most devices in a round")] = 1000
    colluding: Annotated[
        int,
        Meta(
            ge=0,
            le=1000,
            description="most devices in the whole fleet that may pool everything they know, also with an eavesdropper",
        ),
    ] = 1
    threshold: Annotated[
        float, Meta(gt=0.5, le=1, description="fraction of a round's devices that must stay for its sum to be opened")
    ] = 0.7
    spare: Annotated[
        Annotated[int, Meta(ge=0, le=1000)] | None,
        Meta(
            description="failed rounds that the budget covers, each of which adds noise to every round; by default 1, "
            "or 0 if the threshold leaves no room for a dishonest device in the smallest round"
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

    epsilon: Annotated[float, Meta(gt=0, description="total ε, at most 500")] = 2.0
    delta: Annotated[float, Meta(gt=0, lt=1, description="total δ")] = 1e-5
    unit: Annotated[
        Literal["record", "window", "device"] | None,
        Meta(
            description="privacy unit: a record, a window of records such as a day, or the whole device; by default "
            "record, and device for average and for a meter's feed"
        ),
    ] = None
    neighbouring: Annotated[
        Literal["add-remove", "replace-one"] | None,
        Meta(description="neighbouring relation; by default the learner's own"),
    ] = None
    epsilon_per: Annotated[
        Literal["total", "round"],
        Meta(description="round, only in paper variants: the paper's ε for one round; the total is printed beside it"),
    ] = "total"
    noise: Annotated[
        Literal["local", "cell"] | None,
        Meta(
            description="local: each device is protected by its own noise; cell: by the noise of all devices in a "
            "secure sum, which reveals only the sum; by default cell for group-sgd, otherwise local; only average has "
            "a choice"
        ),
    ] = None
    cell: CellSection | None = None
    allow_unproved: Annotated[bool, Meta(description="run even if no ε is proved; only in testbeds")] = False

    def __post_init__(self) -> None:
        """Check the budget and the cell; an infinite ε, which promises nothing, is accepted for testbeds."""
        if _MAX_EPSILON < self.epsilon < float("inf"):
            raise invalid_key("epsilon", f"nothing is promised above {_MAX_EPSILON:g}; set a smaller ε")
        if self.cell is not None and self.noise == "local":
            raise invalid_key("cell", 'requires noise = "cell"; set noise, or remove this table')


class TaskSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[task]`: facts about a task that the whole fleet shares, in addition to [data] and [learner]."""

    name: Annotated[str, Meta(max_length=200, description="name of the task")] = ""
    epoch: Annotated[int, Meta(ge=0, le=2**53, description="tells successive tasks of one name apart")] = 0
    epsilon: Annotated[
        Annotated[float, Meta(gt=0, le=_MAX_EPSILON)] | None,
        Meta(description="most that a device may choose as its `privacy.epsilon`"),
    ] = None
    steps: Annotated[
        Annotated[int, Meta(ge=0, le=1_000_000)] | None,
        Meta(description="most that a device may choose as its `learner.steps`; by default all take the same number"),
    ] = None


class LedgerSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[ledger]`: conditions on this device's ledger that must hold before anything is released."""

    echoes: Annotated[
        int,
        Meta(
            ge=1,
            le=1000,
            description="peers that must confirm after each start that they know of no newer ledger of "
            "this device; until then, it releases nothing",
        ),
    ] = 1
    alone: Annotated[
        bool,
        Meta(
            description="release without asking any peer; the operator guarantees that no copy of "
            "the ledger is restored"
        ),
    ] = False
    bytes_per_day: Annotated[
        BytesPerDay,
        Meta(
            description="bytes that the ledger may write in a UTC day: a quarter at once, the rest evenly; beyond "
            "that, the device slows down"
        ),
    ] = 2**26


class VaultSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[vault]`: the graphs that the vault may load, and the settings of a separate vault process.

    The agent and a separate vault read the same file.
    """

    socket: Annotated[
        Path | None, Meta(description="Unix socket of `sottovoce vault run`, a path of at most about 100 characters")
    ] = None
    directory: Annotated[
        Path | None, Meta(description="the vault's own directory with its ledger, created by `fleet join --vault`")
    ] = None
    agent_user: Annotated[
        str | None, Meta(description="user who may query the vault, by name or number; by default the vault's own user")
    ] = None
    patience: Annotated[
        float,
        Meta(gt=0, le=300, description="seconds that the agent waits for an absent vault before it restarts itself"),
    ] = 120.0
    tasks: Annotated[
        Literal["any", "signed"],
        Meta(description="signed: only tasks signed by the fleet may release anything, and each has its own ε"),
    ] = "any"
    policy: Annotated[
        Path | None,
        Meta(description="policy.toml: what the owner allows signed tasks to do; without it, they may use all of ε"),
    ] = None
    graph_directory: Annotated[
        Path | None, Meta(description="directory of the .onnx files that signed tasks use; graphs must list them, too")
    ] = None
    graphs: Annotated[
        tuple[Annotated[str, Meta(pattern="^sha256:[0-9a-f]{64}$")], ...],
        Meta(
            description="sha256:HEX of each .onnx file allowed as learner.model, beside the package's own; a graph "
            "decides what answers reveal about a record, so list only your own or trusted ones"
        ),
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
            description="IP address and port for /metrics, /livez and /readyz, such as 127.0.0.1:9464; requires "
            "sottovoce[metrics]"
        ),
    ] = None
    allow_remote: Annotated[
        bool,
        Meta(
            description="allow an address that other machines can reach; clients are not authenticated, so restrict "
            "them with a firewall"
        ),
    ] = False
    results: Annotated[
        bool, Meta(description="also serve the newest result of the fleet's secure sums: its values and its homes")
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
            description="how the fleet's devices are certified, as when this device joined: by its own CA, by another "
            "CA, or only by transport.peers"
        ),
    ] = "fleet-ca"
    enroller: Annotated[
        Address | None,
        Meta(
            description="host:port of `sottovoce fleet renew --serve`, which the device asks for a new certificate "
            "after two thirds of the validity"
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
        float,
        Meta(
            ge=0.05,
            le=86_400,
            description="seconds between view exchanges, the same for the whole fleet; 10 suits a LAN",
        ),
    ] = 60.0
    view_size: Annotated[int, Meta(ge=20, le=100, description="devices in the view")] = 30
    warm_size: Annotated[
        int, Meta(ge=1, le=12, description="sampled peers to which the learner sends; they change slowly")
    ] = 6
    mdns: Annotated[
        bool,
        Meta(
            description="find peers on the local network, and announce this device there; requires sottovoce[discovery]"
        ),
    ] = False
    dns: Annotated[
        Annotated[str, Meta(pattern=r"^[A-Za-z0-9_]([A-Za-z0-9._-]{0,220}[A-Za-z0-9.])?$")] | None,
        Meta(description="domain whose SRV records `_sottovoce._tcp` list peers; requires sottovoce[discovery]"),
    ] = None

    def __post_init__(self) -> None:
        """Check that static sampling is not combined with peer discovery."""
        if self.sampling == "static" and (self.mdns or self.dns):
            key = "mdns" if self.mdns else "dns"
            raise invalid_key(key, "static sampling uses only the peers under [transport]; choose newscast")
