"""Events: the costs of releases as the ledger stores them, one frozen value per charge, without any record data.

An accountant only composes events, regardless of how the noise was made. An event's `terms` are its canonical JSON, by
which the ledger recognises a charge and from which anyone can recompute its cost.
"""

import json
import math
from dataclasses import asdict, dataclass, fields, replace
from fractions import Fraction
from typing import Protocol

from sottovoce.accounting.units import EVERY, Units
from sottovoce.errors import PrivacyError

# A discrete Gaussian of variance σ² is, up to a factor within 1 ± 2^-450 per coordinate, a post-processing of a
# continuous one of variance σ² - 16 (docs/decisions/0003-discrete-gaussian.md), so the continuous accountant applies.
SMOOTHING_VARIANCE = 16


class Event(Protocol):
    """A charge in the ledger."""

    @property
    def units(self) -> Units:
        """The units that the release touches; it costs other units nothing."""
        ...

    @property
    def mu_squared(self) -> float:
        """Return the event's contribution to μ² in the Gaussian closed form."""
        ...

    @property
    def epsilon(self) -> float:
        """Return the event's pure ε; infinite where nothing is promised."""
        ...

    @property
    def terms(self) -> str:
        """Return the canonical JSON, equal for two events exactly when mechanism and parameters are equal."""
        ...


@dataclass(frozen=True, slots=True)
class GaussianSum:
    """A sum over units with discrete Gaussian noise.

    Attributes:
        sensitivity_squared: squared L2 sensitivity, in squared grid units; positive.
        sigma: the noise's σ in grid units; too little noise is charged as infinite.
        units: units in the sum.
    """

    sensitivity_squared: int
    sigma: int
    units: Units = EVERY

    def __post_init__(self) -> None:
        """Raise PrivacyError if the values make no valid charge."""
        if self.sensitivity_squared < 1 or self.sigma < 0:
            raise PrivacyError(
                "a charge needs a positive sensitivity and a σ of 0 or more: calibrate the mechanism again"
            )

    @property
    def mu_squared(self) -> float:
        """(sensitivity / standard deviation)² of the continuous Gaussian that it post-processes, rounded up."""
        variance = self.sigma * self.sigma - SMOOTHING_VARIANCE
        return math.nextafter(self.sensitivity_squared / variance, math.inf) if variance > 0 else math.inf

    @property
    def epsilon(self) -> float:
        """Return zero, since no part of the release is pure."""
        return 0.0

    @property
    def terms(self) -> str:
        """See Event.terms."""
        noise = {"sensitivity_squared": self.sensitivity_squared, "sigma": self.sigma}
        return _canonical("gaussian-sum", {**noise, "units": {"spans": self.units.spans}})


@dataclass(frozen=True, slots=True)
class CellSum:
    """A cell's sum, to which each member has added a share of the noise; see docs/decisions/0042-secure-sums.md.

    Attributes:
        sensitivity_squared: squared L2 sensitivity, in squared grid units; positive.
        share: σ of one member's share, in grid units; too little noise is charged as infinite.
        honest: number of shares that are part of every sum that can be opened and unknown to all others; positive.
        units: units in the sum.
    """

    sensitivity_squared: int
    share: int
    honest: int
    units: Units = EVERY

    def __post_init__(self) -> None:
        """Raise PrivacyError if the values make no valid charge."""
        if self.sensitivity_squared < 1 or self.share < 0 or self.honest < 1:
            raise PrivacyError(
                "a charge needs a positive sensitivity, a share of 0 or more and at least one honest share: "
                "calibrate the mechanism again"
            )

    @property
    def mu_squared(self) -> float:
        """Squared μ of one discrete Gaussian with the total variance of the honest shares."""
        variance = self.honest * self.share * self.share - SMOOTHING_VARIANCE
        enough = self.share * self.share > SMOOTHING_VARIANCE
        return math.nextafter(self.sensitivity_squared / variance, math.inf) if enough else math.inf

    @property
    def if_others_collude(self) -> "CellSum":
        """Return the cost if all others collude, so that only this device's share of the noise remains."""
        return replace(self, honest=1)

    @property
    def epsilon(self) -> float:
        """Return zero, since no part of the release is pure."""
        return 0.0

    @property
    def terms(self) -> str:
        """See Event.terms."""
        noise = {"sensitivity_squared": self.sensitivity_squared, "share": self.share, "honest": self.honest}
        return _canonical("cell-sum", {**noise, "units": {"spans": self.units.spans}})


@dataclass(frozen=True, slots=True)
class RecordReleased:
    """One record released by a pure mechanism.

    Attributes:
        record: place of the record, from 0.
        scheme: name of the scheme.
        features: d of the scheme.
        classes: c of the scheme.
        epsilon: pure ε, replace-one; infinite without noise.
    """

    record: int
    scheme: str
    features: int
    classes: int
    epsilon: float

    def __post_init__(self) -> None:
        """Raise PrivacyError if the values make no valid charge."""
        if self.record < 0 or not self.epsilon > 0:
            raise PrivacyError("a charge needs a record index of 0 or more and an ε above 0: set privacy.epsilon")

    @property
    def units(self) -> Units:
        """Return the record's own unit."""
        return Units(((self.record, self.record),))

    @property
    def mu_squared(self) -> float:
        """Return zero, since no part of the release is Gaussian."""
        return 0.0

    @property
    def terms(self) -> str:
        """See Event.terms; a float's shortest decimal identifies it exactly."""
        return _canonical("record", {**asdict(self), "epsilon": repr(self.epsilon)})


@dataclass(frozen=True, slots=True)
class PureRelease:
    """A sum over units with noise of a pure ε.

    Attributes:
        law: name of the noise's law; `none` for no noise.
        copies: number of one-vs-all copies in the sum.
        features: number of values in a copy.
        sensitivity: sensitivity in the norm of the law, in grid units; positive.
        scale: scale of the noise, in grid units; 0 for none.
        epsilon: pure ε, at least sensitivity / scale; infinite where nothing is promised.
        units: units in the sum.
    """

    law: str
    copies: int
    features: int
    sensitivity: int
    scale: int
    epsilon: float
    units: Units = EVERY

    def __post_init__(self) -> None:
        """Raise PrivacyError if the values make no valid charge, or too small a one."""
        if self.sensitivity < 1 or self.scale < 0 or not self.epsilon > 0:
            raise PrivacyError("a charge needs a positive sensitivity and an ε above 0: calibrate the mechanism again")
        if math.isfinite(self.epsilon) and Fraction(self.epsilon) * self.scale < self.sensitivity:
            raise PrivacyError("a release would cost more than it is charged: calibrate the mechanism again")

    @property
    def mu_squared(self) -> float:
        """Return zero, since no part of the release is Gaussian."""
        return 0.0

    @property
    def terms(self) -> str:
        """See Event.terms; a float's shortest decimal identifies it exactly."""
        return _canonical("pure-sum", {**asdict(self), "epsilon": repr(self.epsilon)})


@dataclass(frozen=True, slots=True)
class Unproved:
    """A release for which no guarantee is proved: without noise, or by a mechanism whose claim does not hold.

    Attributes:
        mechanism: name of the mechanism; `none` for a sum without noise.
        units: units from which the release is computed.
    """

    mechanism: str
    units: Units = EVERY

    @property
    def mu_squared(self) -> float:
        """Return zero, since no part of the release is Gaussian."""
        return 0.0

    @property
    def epsilon(self) -> float:
        """Return infinity."""
        return math.inf

    @property
    def terms(self) -> str:
        """See Event.terms."""
        return _canonical("unproved", {"mechanism": self.mechanism, "units": {"spans": self.units.spans}})


@dataclass(frozen=True, slots=True)
class Moved:
    """The move of a ledger to another place: nothing is released and nothing charged, but the ledger head is new.

    Attributes:
        nonce: nonce of this move, in hexadecimal digits.
    """

    nonce: str

    @property
    def units(self) -> Units:
        """Return all units, at no cost."""
        return EVERY

    @property
    def mu_squared(self) -> float:
        """Return zero, since nothing is released."""
        return 0.0

    @property
    def epsilon(self) -> float:
        """Return zero, since nothing is released."""
        return 0.0

    @property
    def terms(self) -> str:
        """See Event.terms."""
        return _canonical("moved", {"nonce": self.nonce})


def with_units(event: Event, units: Units) -> Event:
    """Replace the units of a release; the cost for one record is unchanged."""
    if not any(field.name == "units" for field in fields(event)):  # type: ignore[arg-type]
        return event
    return replace(event, units=units)  # type: ignore[type-var]


def same_but_units(one: Event, other: Event) -> bool:
    """Return whether two events are equal apart from the units they touch."""
    return with_units(one, EVERY).terms == with_units(other, EVERY).terms


def _canonical(kind: str, fields: dict[str, object]) -> str:
    return json.dumps({"event": kind, **fields}, sort_keys=True, separators=(",", ":"))
