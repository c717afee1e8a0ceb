"""Typed schema of an agent's configuration, with every key, its unit, its default and its limits."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeAlias, TypeVar

from msgspec import Meta, Struct, field
from msgspec.structs import force_setattr

from sottovoce.cell import Cell
from sottovoce.config.feed import FeedSection, is_broker
from sottovoce.config.identity import IdentitySection
from sottovoce.config.membership import MembershipSection
from sottovoce.config.observe import ObserveSection
from sottovoce.config.transport import TransportSection
from sottovoce.invalid_key import LARGEST, invalid_key
from sottovoce.learner_settings import LearnerSettings
from sottovoce.model_names import REGRESSION_MODEL, has_graph
from sottovoce.plugins import METER_SOURCE, installed_plugins
from sottovoce.registry import ALGORITHMS, DEFAULT, loaded_algorithms

_MAX_EPSILON = 500.0
_EVERY_ADDRESS = {"0.0.0.0", "[::]"}  # noqa: S104 - nothing is bound here
_MAX_RECORDS = 10_000_000
_HALF_HOURS = 48  # in the load of a day
_A_DAY, _MAX_A_DAY = 44, 1000  # records a day of one meter, and of a whole home at most

BytesPerDay = Annotated[int, Meta(ge=2**20, le=2**50)]


class AgentSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[agent]`: the directory of this device's state."""

    state: Annotated[Path, Meta(description="directory made by `sottovoce fleet join`")]
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Annotated[
        Literal["text", "json"], Meta(description="text: a line for people; json: a JSON object a line")
    ] = "text"
    bytes_per_day: Annotated[
        BytesPerDay,
        Meta(
            description="bytes that may be written to all files together in a day, UTC; spread evenly, by slowing down"
        ),
    ] = 2**28
    readers_socket: Annotated[
        Path | None,
        Meta(description="a second socket, on which the agent's group may request only status and model"),
    ] = None


class DataSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[data]`: the local records and everything about them that is public."""

    source: Annotated[str, Meta(description="a data SPEC, for example npz:/var/lib/meter/records.npz")]
    features: Annotated[int, Meta(ge=1, le=1_000_000, description="columns of the feature matrix, public")]
    classes: Annotated[
        int,
        Meta(
            ge=1,
            le=10_000,
            description="labels are 0 … classes-1; with 1, the last column is predicted; public",
        ),
    ]
    expected_records: Annotated[
        float, Meta(gt=0, le=_MAX_RECORDS, description="records a device of this fleet is expected to hold, public")
    ]
    bounds: Annotated[
        tuple[float, float] | None, Meta(description="declared range of every feature; values are clamped to it")
    ] = None
    ranges: Annotated[
        Literal["declared", "training"],
        Meta(description="source of the ranges of the features; training: computed from all records, and no ε holds"),
    ] = "declared"
    windows: Annotated[
        tuple[int, int] | None,
        Meta(
            description="first and last window whose records may be used, both included, for example [2026-01-01, "
            "2035-12-31]; public"
        ),
    ] = None
    transform: Annotated[
        str, Meta(min_length=1, max_length=200, description="the declared, per-record feature transform")
    ] = "centred-unit"
    columns: Annotated[
        tuple[Annotated[str, Meta(max_length=200)], ...],
        Meta(description="public names of the features, with their units, in order: devices that differ do not mix"),
    ] = ()
    labels: Annotated[
        tuple[Annotated[str, Meta(max_length=200)], ...],
        Meta(description="public names of the labels 0 … classes-1, in order: devices that differ do not mix"),
    ] = ()
    public: Annotated[
        str | None,
        Meta(description="pdsl: a data SPEC of public labelled records, with which models are scored"),
    ] = None

    def __post_init__(self) -> None:
        """Check that bounds are a range, that all features or none are named, and that a feed has no secret."""
        kind, _, location = self.source.partition("#")[0].partition(":")
        if kind == "feed" and (
            "@" in self.source or not (is_broker(location) or location in installed_plugins(METER_SOURCE))
        ):
            raise invalid_key(
                "source",
                "after feed: write mqtt://HOST:PORT of the home's broker, or the name of feed.source, and nothing "
                "else; a user name goes into feed.username, and a password into the file feed.password_file",
            )
        if self.bounds is not None and not (-LARGEST <= self.bounds[0] < self.bounds[1] <= LARGEST):
            raise invalid_key("bounds", "must be two finite numbers, the lower first")
        for name, given, wanted in (("columns", self.columns, self.features), ("labels", self.labels, self.classes)):
            if twice := [one for i, one in enumerate(given) if one in given[:i]]:
                raise invalid_key(name, f"{twice[0]} is listed twice; name each once")
            if given and len(given) != wanted:
                raise invalid_key(
                    name, f"names {len(given)} where there are {wanted}: name all of them, in order, or none"
                )
        if self.windows is not None and not (0 <= self.windows[0] <= self.windows[1] < 2**63):
            raise invalid_key("windows", "must be two dates, or two numbers from 0, the earlier first")


class CellSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[privacy.cell]`: groups of devices that share their noise, and the trust in them."""

    min: Annotated[int, Meta(ge=2, le=1024, description="devices in a round, at least")] = 8
    max: Annotated[int, Meta(ge=2, le=1024, description="devices in a round, at most")] = 1000
    colluding: Annotated[
        int,
        Meta(
            ge=0,
            le=1000,
            description="devices of the whole fleet that share all they know with each other and with an eavesdropper, "
            "at most",
        ),
    ] = 1
    threshold: Annotated[
        float, Meta(gt=0.5, le=1, description="share of a round's devices that must be left for its sum to be opened")
    ] = 0.7
    spare: Annotated[
        Annotated[int, Meta(ge=0, le=1000)] | None,
        Meta(
            description="rounds that may fail, and are paid for in addition to the others; by default 1, or 0 where "
            "the threshold leaves no room for a dishonest device"
        ),
    ] = None

    @property
    def rule(self) -> Cell:
        """The cell's sizes, as a rule."""
        cell = Cell(self.min, self.max, self.colluding, self.threshold)
        return replace(cell, spare=cell.own_spare if self.spare is None else self.spare)

    def __post_init__(self) -> None:
        """Check that every roster can be opened and protects at least one member."""
        if (what := self.rule.defect) is not None:
            raise invalid_key(*what)


class PrivacySection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[privacy]`: the budget for which the ledger must have been made."""

    epsilon: Annotated[float, Meta(gt=0, description="total ε")] = 2.0
    delta: Annotated[float, Meta(gt=0, lt=1, description="total δ")] = 1e-5
    unit: Annotated[
        Literal["record", "window", "device"] | None,
        Meta(
            description="what one privacy unit is: a record, a window of records such as a day, or all of the device; "
            "without it the learner's own: record, average: device; with a meter's feed window"
        ),
    ] = None
    neighbouring: Annotated[
        Literal["add-remove", "replace-one"] | None,
        Meta(description="without it the learner's own: add-remove, golf: replace-one"),
    ] = None
    epsilon_per: Annotated[
        Literal["total", "round"],
        Meta(description="round: to the letter, the ε that the paper states for one round; the total is printed"),
    ] = "total"
    noise: Annotated[
        Literal["local", "cell"] | None,
        Meta(
            description="local: each device hides in its own noise; cell: in that of all devices of a secure sum, "
            "which reveals only the sum; without it the learner's own: local, group-sgd: cell"
        ),
    ] = None
    cell: CellSection | None = None
    allow_unproved: Annotated[bool, Meta(description="run although no ε is proved")] = False

    def __post_init__(self) -> None:
        """Check the budget; infinity, which promises nothing, is for testbeds."""
        if _MAX_EPSILON < self.epsilon < float("inf"):
            raise invalid_key("epsilon", f"above {_MAX_EPSILON:g} nothing is promised; choose less")
        if self.cell is not None and self.noise == "local":
            raise invalid_key("cell", 'needs noise = "cell"; write that, or leave the table out')


class TaskSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[task]`: the facts of a task that the whole fleet shares, beside [data] and [learner]."""

    name: Annotated[
        str, Meta(max_length=200, description="name of the task; devices with different ones do not mix")
    ] = ""
    epoch: Annotated[
        int, Meta(ge=0, le=2**53, description="epoch of the task; devices with different ones do not mix")
    ] = 0
    epsilon: Annotated[
        Annotated[float, Meta(gt=0, le=_MAX_EPSILON)] | None,
        Meta(description="the most ε that a device spends; below it each chooses its own"),
    ] = None
    steps: Annotated[
        Annotated[int, Meta(ge=0, le=1_000_000)] | None,
        Meta(description="the most steps that a device takes; below it each chooses its own, else all take as many"),
    ] = None


class LedgerSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[ledger]`: conditions on this device's ledger before anything is released."""

    echoes: Annotated[
        int,
        Meta(
            ge=1,
            le=1000,
            description="peers that must have confirmed since the start that they know no newer ledger of this device",
        ),
    ] = 1
    alone: Annotated[
        bool,
        Meta(description="true: release without asking any peer; the operator guarantees that no copy was restored"),
    ] = False
    bytes_per_day: Annotated[
        BytesPerDay,
        Meta(description="bytes that the ledger may write in a day, UTC; spread evenly, by slowing the device down"),
    ] = 2**26


class VaultSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[vault]`: the graphs it may load, and its socket as a process of its own. One file serves both processes."""

    socket: Annotated[
        Path | None, Meta(description="Unix socket of `sottovoce vault run`; without it the vault is in the agent")
    ] = None
    directory: Annotated[
        Path | None, Meta(description="the vault's own directory with its ledger, made by `fleet join --vault`")
    ] = None
    agent_user: Annotated[
        str | None, Meta(description="user who may query the vault, by name or number; by default the vault's own user")
    ] = None
    patience: Annotated[
        float,
        Meta(gt=0, le=300, description="seconds to wait for a vault that is away before it restarts"),
    ] = 120.0
    tasks: Annotated[
        Literal["any", "signed"],
        Meta(description="signed: only tasks that the fleet has signed release anything, and they bring their own ε"),
    ] = "any"
    policy: Annotated[
        Path | None,
        Meta(description="policy.toml: what the owner allows the fleet's signed tasks; by default all within the ε"),
    ] = None
    graph_directory: Annotated[
        Path | None, Meta(description="directory of the .onnx files that the fleet's signed tasks name")
    ] = None
    graphs: Annotated[
        tuple[Annotated[str, Meta(pattern="^sha256:[0-9a-f]{64}$")], ...],
        Meta(description="sha256:HEX of each .onnx file that learner.model may name, beside the package's own"),
    ] = ()

    def __post_init__(self) -> None:
        """Check that a separate vault has everything that it needs."""
        if (self.socket is None) != (self.directory is None):
            missing = "socket" if self.socket is None else "directory"
            raise invalid_key(missing, "a separate vault needs both socket and directory; without one leave out both")


Learner = TypeVar("Learner", bound=LearnerSettings)


def _default_learner() -> Any:
    return ALGORITHMS[DEFAULT].settings()


class WholeConfig(Struct, Generic[Learner], frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A whole configuration file, of an algorithm with such settings."""

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
        """Check that the learner bounds the unit, that windows are declared, and that it can learn a regression."""
        unit = self.unit
        if unit != "record" and self.learner.algorithm.record_level:
            why = f"learner {self.learner.name} bounds what one record adds"
            if self.privacy.unit is None:  # of a feed, whose records are half hours
                raise invalid_key(
                    "privacy.unit",
                    f"{why}, and a meter's day has many: choose a learner that bounds a window, such as clipd2p, or "
                    "write record if only half an hour of this home has to be hidden",
                )
            raise invalid_key("privacy.unit", f"{why}; choose record")
        if unit == "window" and self.data.windows is None:
            raise invalid_key(
                "data.windows", "declare the first and the last window: which windows have records is private"
            )
        if unit == "device" and self.data.source.startswith("feed:") and self.data.windows is None:
            raise invalid_key(
                "data.windows", "declare the first and the last day of the feed, by which its budget is spread"
            )
        if self.data.classes == 1:
            self._check_regression()
        if self.data.source.startswith("feed:"):
            self._check_feed()
            location = self.data.source.partition("#")[0].removeprefix("feed:")
            if not is_broker(location) and location != self.feed.source:
                raise invalid_key("feed.source", f"data.source names the meter source {location}; name the same one")
        force_setattr(self, "learner", self.learner.completed(follows=self.follows))
        if self.follows:
            self._check_followed()
        self._check_noise()
        self._check_ceilings()
        self._check_addresses()

    def _check_feed(self) -> None:
        """Check that the feed is forecast, or that its days are averaged."""
        known, data = self.learner.algorithm, self.data
        if not (known.regression or known.loads):
            why = f"a feed is for forecasts, which {self.learner.name} does not support"
            raise invalid_key(
                "learner.name", f"{why}; {_regression_remedy()}; or average its days with learner average"
            )
        if known.loads and (data.features, data.classes, data.transform) != (_HALF_HOURS, 2, "none"):
            raise invalid_key(
                "data.features",
                f"a day's load has {_HALF_HOURS} numbers and no label: write features = {_HALF_HOURS}, classes = 2 and "
                'transform = "none"',
            )

    def _check_noise(self) -> None:
        learner, noise = self.learner, self.privacy.noise
        if learner.algorithm.in_cells == "never" and (noise == "cell" or self.privacy.cell is not None):
            raise invalid_key(
                "privacy.noise", f"learner {learner.name} does not use secure sums; leave it and privacy.cell out"
            )
        if noise == "local" and learner.algorithm.in_cells == "always":
            raise invalid_key("privacy.noise", f"learner {learner.name} supports only secure sums; choose cell")

    def _check_addresses(self) -> None:
        """Check that the agent and its metrics have ports of their own."""
        metrics, listen = self.observe.metrics, self.transport.listen
        if metrics is None or "grpc" not in self.transport.use:
            return
        (host, _, port), (other, _, taken) = listen.rpartition(":"), metrics.rpartition(":")
        if port == taken and (host == other or {host, other} & _EVERY_ADDRESS):
            raise invalid_key("observe.metrics", f"transport.listen is {listen}; choose another port")

    def _check_ceilings(self) -> None:
        most, steps = self.task, getattr(self.learner, "steps", None)
        if most.epsilon is not None and self.privacy.epsilon > most.epsilon:
            raise invalid_key("privacy.epsilon", f"the task allows {most.epsilon:g} at most; choose less")
        if most.steps is not None and not self.learner.fewer_steps:
            raise invalid_key(
                "task.steps", f"all devices of learner {self.learner.name} take the same steps; leave it out"
            )
        if most.steps is not None and steps is not None and steps > most.steps:
            raise invalid_key("learner.steps", f"the task allows {most.steps} at most; choose less")

    def _check_regression(self) -> None:
        learner, why = self.learner, "data.classes = 1 is a regression"
        if not learner.algorithm.regression:
            raise invalid_key("learner.name", f"{why}, which {learner.name} does not support; {_regression_remedy()}")
        if learner.chosen_model != REGRESSION_MODEL and not has_graph(learner.chosen_model):
            raise invalid_key(
                "learner.model", f"{why}, which {learner.chosen_model} does not support; choose {REGRESSION_MODEL}"
            )
        if self.data.transform != "none":
            raise invalid_key(
                "data.transform", f"{why} of the last column, which {self.data.transform} changes; choose none"
            )

    def _check_followed(self) -> None:
        data = self.data
        if self.learner.algorithm.regression and data.expected_records > _MAX_A_DAY:
            raise invalid_key(
                "data.expected_records",
                f"with a feed, whose days come one by one, records are counted per day, {_A_DAY} per meter; "
                f"write {_A_DAY}",
            )
        if "test=" in data.source:
            raise invalid_key(
                "data.source",
                "a feed never ends, and its last days change: leave test out",
            )
        if getattr(self.learner, "mixing", None) == "contributions":
            raise invalid_key(
                "learner.mixing",
                "what a device contributes is a sum of a fixed number of steps, and a feed never ends: choose "
                '"pairwise" or "push-sum"',
            )

    @property
    def follows(self) -> bool:
        """Whether records are added while the agent runs: the days of a meter's feed."""
        return self.followed_days is not None

    @property
    def followed_days(self) -> tuple[int, int] | None:
        """The first and the last day that is followed; None if no days are followed."""
        followed = self.data.source.startswith("feed:") and self.unit in ("window", "device")
        return self.data.windows if followed else None

    @property
    def unit(self) -> str:
        """The privacy unit: as configured, or the learner's own; a day for a meter's feed."""
        own = self.learner.algorithm.unit
        if self.data.source.startswith("feed:") and own == "record":
            own = "window"
        return self.privacy.unit or own

    @property
    def cell(self) -> Cell | None:
        """Rule of the cell in which devices share their noise; None where each adds full noise itself."""
        asked = self.privacy.noise or ("cell" if self.learner.algorithm.in_cells == "always" else "local")
        return None if asked == "local" else (self.privacy.cell or CellSection()).rule

    @property
    def neighbouring(self) -> str:
        """The neighbouring relation: as configured, or the learner's own."""
        learner = self.learner
        return self.privacy.neighbouring or learner.algorithm.relation_of(learner)

    @property
    def unproved(self) -> bool:
        """Whether no ε is proved for the learner, so that its releases are charged as infinite."""
        return self.learner.unproved


def _regression_remedy() -> str:
    return f"choose one of {', '.join(name for name, known in loaded_algorithms().items() if known.regression)}"


AgentConfig: TypeAlias = WholeConfig[LearnerSettings]
"""The same, of any algorithm."""
