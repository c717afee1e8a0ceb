"""Typed schema of an agent's configuration, with the unit, the default and the limits of every key."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeAlias, TypeVar

from msgspec import Meta, Struct, field
from msgspec.structs import force_setattr

from sottovoce.config.feed import FeedSection, is_broker_url
from sottovoce.config.sections import IdentitySection, MembershipSection, ObserveSection
from sottovoce.config.transport import TransportSection
from sottovoce.learning.model_names import REGRESSION_MODEL, has_graph
from sottovoce.learning.registry import ALGORITHMS, DEFAULT, loaded_algorithms
from sottovoce.learning.settings import LearnerSettings
from sottovoce.plugins import METER_SOURCE, installed_plugins
from sottovoce.privacy.cell import Cell
from sottovoce.suggestions import LARGEST, invalid_key

_MAX_EPSILON = 500.0
_WILDCARD_ADDRESSES = {"0.0.0.0", "[::]"}  # noqa: S104 - these addresses are only compared
_MAX_RECORDS = 10_000_000
_HALF_HOURS_PER_DAY = 48  # numbers in a day's load
_RECORDS_PER_DAY, _MAX_RECORDS_PER_DAY = 44, 1000  # for one meter, and the maximum for a home

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
            description="maximum number of bytes written to all files together in a UTC day; the agent slows down to "
            "spread them evenly"
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
        Meta(description="source of the feature ranges; training: they are computed from all records, so no ε holds"),
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
                "must be `feed:`, followed by mqtt://HOST:PORT of the home's broker or by the name of feed.source; "
                "put a user name into feed.username, and a password into the file feed.password_file",
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
            description="number of rounds that may fail, which are charged in addition to the others; by default 1, "
            "or 0 if the threshold leaves no room for a dishonest device"
        ),
    ] = None

    @property
    def size_limits(self) -> Cell:
        """The cell's size limits that these settings describe."""
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
            "the learner's own, which is device for average, otherwise record, or window for a meter's feed"
        ),
    ] = None
    neighbouring: Annotated[
        Literal["add-remove", "replace-one"] | None,
        Meta(
            description="neighbouring relation; by default the learner's own, for example replace-one for golf and "
            "add-remove for most learners"
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
            description="maximum number of bytes that the ledger writes in a UTC day; the device slows down to spread "
            "them evenly"
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
        Meta(gt=0, le=300, description="seconds for which the agent waits for an unavailable vault before it restarts"),
    ] = 120.0
    tasks: Annotated[
        Literal["any", "signed"],
        Meta(description="signed: only tasks signed by the fleet may release anything, and each has its own ε"),
    ] = "any"
    policy: Annotated[
        Path | None,
        Meta(
            description="policy.toml, which specifies what the owner allows the fleet's signed tasks to do; by "
            "default everything within ε"
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


Learner = TypeVar("Learner", bound=LearnerSettings)


def _default_learner() -> Any:
    return ALGORITHMS[DEFAULT].settings()


class WholeConfig(Struct, Generic[Learner], frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A complete configuration file for a learner with settings of type `Learner`."""

    agent: AgentSection
    data: DataSection
    learner: Learner = field(default_factory=_default_learner)
    privacy: PrivacySection = PrivacySection()
    transport: TransportSection = TransportSection()
    membership: MembershipSection = MembershipSection()
    task: TaskSection = TaskSection()
    ledger: LedgerSection = LedgerSection()
    vault: VaultSection = VaultSection()
    feed: FeedSection = FeedSection()
    identity: IdentitySection = IdentitySection()
    observe: ObserveSection = ObserveSection()

    def __post_init__(self) -> None:
        """Check that the tables are consistent: privacy unit, windows, learner, noise, limits and addresses."""
        unit = self.unit
        if unit != "record" and self.learner.algorithm.record_level:
            reason = f"learner {self.learner.name} bounds the contribution of one record"
            if self.privacy.unit is None:  # the default for a feed, whose records are half hours
                raise invalid_key(
                    "privacy.unit",
                    f"{reason}, but a meter's day has many: choose a learner that bounds a window, such as clipd2p, or "
                    "choose record if only half an hour of this home must be hidden",
                )
            raise invalid_key("privacy.unit", f"{reason}; choose record")
        if unit == "window" and self.data.windows is None:
            raise invalid_key(
                "data.windows",
                "missing; declare the first and last window, because the set of windows that have records is private",
            )
        if unit == "device" and self.data.source.startswith("feed:") and self.data.windows is None:
            raise invalid_key(
                "data.windows", "missing; declare the first and last day of the feed, over which its budget is spread"
            )
        if self.data.classes == 1:
            self._check_regression()
        if self.data.source.startswith("feed:"):
            self._check_feed()
            location = self.data.source.partition("#")[0].removeprefix("feed:")
            if not is_broker_url(location) and location != self.feed.source:
                raise invalid_key("feed.source", f"data.source uses the meter source {location}; set the same one here")
        force_setattr(self, "learner", self.learner.with_defaults(follows=self.follows))
        if self.follows:
            self._check_following()
        self._check_noise()
        self._check_ceilings()
        self._check_addresses()

    def _check_feed(self) -> None:
        """Check that the learner forecasts a feed or averages its days."""
        algorithm, data = self.learner.algorithm, self.data
        if not (algorithm.regression or algorithm.loads):
            reason = f"a feed requires forecasts, which {self.learner.name} does not support"
            raise invalid_key(
                "learner.name", f"{reason}; {_regression_remedy()}; or average its days with learner average"
            )
        if algorithm.loads and (data.features, data.classes, data.transform) != (_HALF_HOURS_PER_DAY, 2, "none"):
            raise invalid_key(
                "data.features",
                f"a day's load has {_HALF_HOURS_PER_DAY} values and no label: set features = {_HALF_HOURS_PER_DAY}, "
                'classes = 2 and transform = "none"',
            )

    def _check_noise(self) -> None:
        learner, noise = self.learner, self.privacy.noise
        if learner.algorithm.secure_sums == "never" and (noise == "cell" or self.privacy.cell is not None):
            raise invalid_key(
                "privacy.noise", f"learner {learner.name} does not use secure sums; remove this key and privacy.cell"
            )
        if noise == "local" and learner.algorithm.secure_sums == "always":
            raise invalid_key("privacy.noise", f"learner {learner.name} supports only secure sums; choose cell")

    def _check_addresses(self) -> None:
        """Check that the agent and its metrics use different addresses."""
        metrics, listen = self.observe.metrics, self.transport.listen
        if metrics is None or "grpc" not in self.transport.use:
            return
        (host, _, port), (metrics_host, _, metrics_port) = listen.rpartition(":"), metrics.rpartition(":")
        if port == metrics_port and (host == metrics_host or {host, metrics_host} & _WILDCARD_ADDRESSES):
            raise invalid_key("observe.metrics", f"transport.listen is {listen}; choose another port")

    def _check_ceilings(self) -> None:
        limits, steps = self.task, getattr(self.learner, "steps", None)
        if limits.epsilon is not None and self.privacy.epsilon > limits.epsilon:
            raise invalid_key("privacy.epsilon", f"the task allows at most {limits.epsilon:g}; set a smaller ε")
        if limits.steps is not None and not self.learner.fewer_steps:
            raise invalid_key(
                "task.steps", f"all devices with learner {self.learner.name} take the same steps; remove this key"
            )
        if limits.steps is not None and steps is not None and steps > limits.steps:
            raise invalid_key("learner.steps", f"the task allows at most {limits.steps}; set fewer steps")

    def _check_regression(self) -> None:
        learner, reason = self.learner, "data.classes = 1 selects regression"
        if not learner.algorithm.regression:
            raise invalid_key(
                "learner.name", f"{reason}, which {learner.name} does not support; {_regression_remedy()}"
            )
        if learner.chosen_model != REGRESSION_MODEL and not has_graph(learner.chosen_model):
            raise invalid_key(
                "learner.model", f"{reason}, which {learner.chosen_model} does not support; choose {REGRESSION_MODEL}"
            )
        if self.data.transform != "none":
            raise invalid_key(
                "data.transform", f"{reason} of the last column, which {self.data.transform} changes; choose none"
            )

    def _check_following(self) -> None:
        data = self.data
        if self.learner.algorithm.regression and data.expected_records > _MAX_RECORDS_PER_DAY:
            raise invalid_key(
                "data.expected_records",
                "for a feed, whose days arrive one by one, this is the number of records per day, "
                f"{_RECORDS_PER_DAY} per meter; for one meter, set {_RECORDS_PER_DAY}",
            )
        if "test=" in data.source:
            raise invalid_key(
                "data.source",
                "a feed never ends, so its last days keep changing: remove test",
            )
        if getattr(self.learner, "mixing", None) == "contributions":
            raise invalid_key(
                "learner.mixing",
                "a device contributes the sum of a fixed number of steps, but a feed never ends: choose "
                '"pairwise" or "push-sum"',
            )

    @property
    def follows(self) -> bool:
        """Whether records are added while the agent runs, as for a meter's feed, which adds a day at a time."""
        return self.followed_days is not None

    @property
    def followed_days(self) -> tuple[int, int] | None:
        """First and last day of the feed that the agent follows; None if it does not follow a feed."""
        is_followed = self.data.source.startswith("feed:") and self.unit in ("window", "device")
        return self.data.windows if is_followed else None

    @property
    def unit(self) -> str:
        """Privacy unit: as configured, or the learner's own, with a day instead of a record for a meter's feed."""
        default = self.learner.algorithm.unit
        if self.data.source.startswith("feed:") and default == "record":
            default = "window"
        return self.privacy.unit or default

    @property
    def cell(self) -> Cell | None:
        """Size limits of the cells in which devices share their noise; None if each device adds full noise itself."""
        noise = self.privacy.noise or ("cell" if self.learner.algorithm.secure_sums == "always" else "local")
        return None if noise == "local" else (self.privacy.cell or CellSection()).size_limits

    @property
    def neighbouring(self) -> str:
        """Neighbouring relation: as configured, or the learner's own."""
        learner = self.learner
        return self.privacy.neighbouring or learner.algorithm.resolve_relation(learner)

    @property
    def is_unproved(self) -> bool:
        """Whether no ε is proved for the learner, in which case its releases are charged as infinite."""
        return self.learner.is_unproved


def _regression_remedy() -> str:
    return f"choose one of {', '.join(name for name, algorithm in loaded_algorithms().items() if algorithm.regression)}"


AgentConfig: TypeAlias = WholeConfig[LearnerSettings]
"""A complete configuration file for any learner."""
