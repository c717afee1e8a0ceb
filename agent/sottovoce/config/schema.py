"""Typed schema of an agent's configuration, with the unit, the default and the limits of every key."""

from typing import Any, Generic, TypeAlias, TypeVar

from msgspec import Struct, field
from msgspec.structs import force_setattr

from sottovoce.config.feed import FeedSection, is_broker_url
from sottovoce.config.sections import (
    AgentSection,
    CellSection,
    DataSection,
    IdentitySection,
    LedgerSection,
    MembershipSection,
    ObserveSection,
    PrivacySection,
    TaskSection,
    VaultSection,
)
from sottovoce.config.transport import TransportSection
from sottovoce.days import EXPORT
from sottovoce.learning.model_names import REGRESSION_MODEL, has_graph
from sottovoce.learning.registry import ALGORITHMS, DEFAULT, loaded_algorithms
from sottovoce.learning.settings import LearnerSettings
from sottovoce.privacy.cell import Cell
from sottovoce.suggestions import invalid_key

_WILDCARD_ADDRESSES = {"0.0.0.0", "[::]"}  # noqa: S104 - these addresses are only compared
_HALF_HOURS_PER_DAY = 48  # values in a day's load
_RECORDS_PER_DAY, _MAX_RECORDS_PER_DAY = 44, 1000  # from one meter, and at most from a whole home


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
                    f"{reason}, but a meter's day has many: choose a learner that bounds that of a window, such "
                    "as clipd2p, or choose record if it is enough to hide single half hours of this home",
                )
            raise invalid_key("privacy.unit", f"{reason}; choose record")
        if unit == "window" and self.data.windows is None:
            raise invalid_key(
                "data.windows",
                "missing; declare the first and last window, because the set of windows that have records is private",
            )
        if unit == "device" and self.data.source.startswith("feed:") and self.data.windows is None:
            raise invalid_key(
                "data.windows", "missing; declare the first and last day over which the feed's budget is spread"
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
        options = data.source.partition("#")[2].split("&")
        meter = next((option.removeprefix("meter=") for option in options if option.startswith("meter=")), None)
        stored = [
            name for meter in self.feed.meters for name in (meter.name, *([meter.name + EXPORT] if meter.net else []))
        ]
        if meter is not None and stored and meter not in stored:
            raise invalid_key("data.source", f"feed.meters has no meter {meter}; choose one of {', '.join(stored)}")
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
                "for a feed, which grows by one day at a time, this is the number of records per day, "
                f"{_RECORDS_PER_DAY} for each meter; with a single meter, set {_RECORDS_PER_DAY}",
            )
        if "test=" in data.source:
            raise invalid_key(
                "data.source",
                "a feed never ends, so its last days keep changing: remove test",
            )

    @property
    def follows(self) -> bool:
        """Whether records are added while the agent runs, as with a meter's feed, which grows by one day at a time."""
        return self.followed_days is not None

    @property
    def followed_days(self) -> tuple[int, int] | None:
        """First and last day of the feed that the agent follows; None if it does not follow a feed."""
        is_followed = self.data.source.startswith("feed:") and self.unit in ("window", "device")
        return self.data.windows if is_followed else None

    @property
    def unit(self) -> str:
        """Configured privacy unit, or else the learner's own; with a meter's feed, the device."""
        return self.privacy.unit or ("device" if self.data.source.startswith("feed:") else self.learner.algorithm.unit)

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
