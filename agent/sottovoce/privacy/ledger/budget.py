"""The budget of a privacy unit, the spending so far, and stored releases."""

import json
import math
from dataclasses import asdict, dataclass, field

from sottovoce.errors import PrivacyError
from sottovoce.privacy.accounting.gaussian import MAX_EPSILON, allowed_mu, check_numbers

_UNITS = ("record", "window", "device")
_RELATIONS = ("add-remove", "replace-one")


@dataclass(frozen=True, slots=True)
class Budget:
    """The total budget of one privacy unit.

    Attributes:
        epsilon: total ε; None for the noise-free baseline, which has no guarantee.
        delta: total δ.
        unit: `record`, `window` or `device`.
        neighbouring: `add-remove` or `replace-one`.
    """

    epsilon: float | None = math.nan  # every value must be stated; __post_init__ names the one that is not
    delta: float = math.nan
    unit: str = ""
    neighbouring: str = ""

    def __post_init__(self) -> None:
        """Raise PrivacyError if the budget is invalid or incomplete, or UsageError if ε or δ is not a number."""
        for name, value, choices in (
            ("unit", self.unit, _UNITS),
            ("neighbouring", self.neighbouring, _RELATIONS),
        ):
            if value not in choices:
                problem = f"{name}={value!r} is unknown" if value else f"{name} is missing"
                raise PrivacyError(f"Budget: {problem}; choose {', '.join(choices[:-1])} or {choices[-1]}")
        numbers = {"delta": self.delta, **({} if self.epsilon is None else {"epsilon": self.epsilon})}
        check_numbers(**numbers)
        if missing := [name for name, value in numbers.items() if math.isnan(value)]:
            raise PrivacyError(f"Budget: {missing[-1]} is missing; for example, epsilon=1.0, delta=1e-5")
        allowed_mu(MAX_EPSILON if self.epsilon is None else self.epsilon, self.delta)

    @property
    def description(self) -> str:
        """A short description of the budget."""
        epsilon = "no ε" if self.epsilon is None else f"ε = {self.epsilon:g}"
        return f"{epsilon}, δ = {self.delta:g}, {self.unit} level, {self.neighbouring}"

    @property
    def join_options(self) -> str:
        """The `sottovoce fleet join` options that create a ledger with this budget."""
        epsilon = "" if self.epsilon is None else f"--epsilon {self.epsilon:g} "
        return f"{epsilon}--delta {self.delta:g} --unit {self.unit} --neighbouring {self.neighbouring}"

    def is_at_least_as_strict_as(self, other: "Budget") -> bool:
        """Return whether this budget's unit is at least as large, its relation equal, and its ε and δ no higher."""
        if self.epsilon is None or self.neighbouring != other.neighbouring:
            return False
        covers_unit = _UNITS.index(self.unit) >= _UNITS.index(other.unit)
        return covers_unit and self.delta <= other.delta and (other.epsilon is None or self.epsilon <= other.epsilon)

    def canonical_json(self, owner: str) -> str:
        """Return the owner and budget as canonical JSON; the shortest decimal of a float identifies it exactly."""
        return json.dumps({"owner": owner, **asdict(self)}, sort_keys=True, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class TaskSpending:
    """The spending of one task, in the task's terms.

    Attributes:
        epoch: the task's epoch.
        epsilon: ε that the task has charged to its most-charged unit.
        releases: number of releases made in the task.
    """

    epoch: int
    epsilon: float
    releases: int

    @property
    def promised_epsilon(self) -> float | None:
        """Promised ε, or None if it is infinite and therefore guarantees nothing."""
        return self.epsilon if math.isfinite(self.epsilon) else None


@dataclass(frozen=True, slots=True)
class Period:
    """The current period of a ledger's budget.

    Attributes:
        number: number of the period in the fleet's task; 0 for the first period.
        elapsed: seconds for which the vault has run in this period.
        least: seconds after which the next period may start; infinite if no other period ever starts.
        waiting: whether the fleet's task is for a later period.
    """

    number: int
    elapsed: float
    least: float
    waiting: bool


@dataclass(frozen=True, slots=True)
class PeriodSpending:
    """The spending in the current period of a renewable budget.

    Attributes:
        period: the period, including how long it has lasted.
        epsilon: ε charged in this period to the most-charged unit.
    """

    period: Period
    epsilon: float


@dataclass(frozen=True, slots=True)
class LimitSpending:
    """The spending under a limit that the owner has set for all tasks together.

    Attributes:
        span: `month` or `year`.
        limit: largest total ε for one unit in a span.
        epsilon: ε charged in the current span to the most-charged unit.
        ends: seconds of the vault's running time until the next span begins.
    """

    span: str
    limit: float
    epsilon: float
    ends: float


@dataclass(frozen=True, slots=True)
class Spending:
    """The spending recorded in the ledger.

    Attributes:
        epsilon: ε charged so far to the most-charged unit, at the budget's δ; infinite if any release was
            noise-free.
        charges: number of releases paid for.
        releases: number of releases made; never more than `charges`.
        written_today: upper bound on the bytes that the ledger has written since midnight UTC, or since it was opened.
        of_task: spending of the current task, if the fleet has signed one.
        of_period: spending of the current period, if the budget is per period.
        alone: value of `epsilon` if all other devices collude; None if ε does not depend on them.
        of_limits: spending under each of the owner's limits.
        lasts: seconds until the budget is spent or a limit is reached, at the average rate of spending so far; infinite
            if nothing was charged, None if it cannot be determined.
    """

    epsilon: float
    charges: int
    releases: int
    written_today: int = field(default=0, compare=False)
    of_task: TaskSpending | None = None
    of_period: PeriodSpending | None = field(default=None, compare=False)
    alone: float | None = None
    of_limits: tuple[LimitSpending, ...] = field(default=(), compare=False)
    lasts: float | None = field(default=None, compare=False)

    @property
    def budget_epsilon(self) -> float:
        """ε charged to the ledger's budget; if the budget is per period, ε charged in the current period."""
        return self.epsilon if self.of_period is None else self.of_period.epsilon

    @property
    def current(self) -> "Spending | TaskSpending":
        """Spending of the current task if there is one; otherwise, the total spending."""
        return self.of_task or self

    @property
    def promised_epsilon(self) -> float | None:
        """Promised ε, or None if it is infinite and therefore guarantees nothing."""
        return self.epsilon if math.isfinite(self.epsilon) else None

    @property
    def epsilon_alone(self) -> float | None:
        """`alone`, or None if it is infinite."""
        return self.alone if self.alone is not None and math.isfinite(self.alone) else None


@dataclass(frozen=True, slots=True)
class StoredRelease:
    """A release as stored in the ledger.

    Attributes:
        exponent: the grid step is 2**exponent.
        value: int64[P], little-endian.
        simulated: whether the noise came from a seeded stream.
    """

    exponent: int
    value: bytes
    simulated: bool
