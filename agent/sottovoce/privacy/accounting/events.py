"""Ledger events: one immutable value per charge, which states a release's cost and contains no record data.

The accountant only composes events, regardless of how the noise was generated. An event's `terms` are its canonical
JSON. The ledger uses the terms to recognise a charge, and anyone can recompute the cost from them.
"""

import json
import math
from dataclasses import asdict, dataclass, fields, replace
from fractions import Fraction
from typing import Protocol

from sottovoce.errors import PrivacyError
from sottovoce.privacy.accounting.units import EVERY, Units

# Up to a factor within 1 ± 2^-450 per coordinate, a discrete Gaussian of variance σ² can be obtained by post-processing
# a continuous Gaussian of variance σ² - 16 (docs/decisions/0003-discrete-gaussian.md), so the continuous accountant
# applies.
SMOOTHING_VARIANCE = 16


class Event(Protocol):
    """A charge in the ledger: the privacy cost of one release."""

    @property
    def units(self) -> Units:
        """Return the units that the release touches; it costs other units nothing."""
        ...

    @property
    def mu_squared(self) -> float:
        """Return the μ² that the event contributes to the Gaussian closed form."""
        ...

    @property
    def epsilon(self) -> float:
        """Return the event's pure ε; infinite if there is no guarantee."""
        ...

    @property
    def terms(self) -> str:
        """Return the canonical JSON, equal for two events if and only if their mechanism and parameters are equal."""
        ...


@dataclass(frozen=True, slots=True)
class GaussianSum:
    """The cost of a sum over privacy units with discrete Gaussian noise.

    Attributes:
        sensitivity_squared: squared L2 sensitivity, in squared grid units; positive.
        sigma: σ of the noise, in grid units; if it is too small, the charge is infinite.
        units: units in the sum.
    """

    sensitivity_squared: int
    sigma: int
    units: Units = EVERY

    def __post_init__(self) -> None:
        """Raise PrivacyError if the values are not a valid charge."""
        if self.sensitivity_squared < 1 or self.sigma < 0:
            raise PrivacyError(
                "a charge's sensitivity is not positive, or its σ is negative; recalibrate the mechanism"
            )

    @property
    def mu_squared(self) -> float:
        """Return (sensitivity / standard deviation)² of the underlying continuous Gaussian, rounded up."""
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
        return _canonical_json("gaussian-sum", {**noise, "units": {"spans": self.units.spans}})


@dataclass(frozen=True, slots=True)
class CellSum:
    """The cost of a secure sum over a cell of devices, each of which adds a share of the noise.

    See docs/decisions/0042-secure-sums.md.

    Attributes:
        sensitivity_squared: squared L2 sensitivity, in squared grid units; positive.
        share: σ of one member's share, in grid units; if it is too small, the charge is infinite.
        honest: number of noise shares, in any sum that can be opened, that only their own members know; positive.
        units: units in the sum.
    """

    sensitivity_squared: int
    share: int
    honest: int
    units: Units = EVERY

    def __post_init__(self) -> None:
        """Raise PrivacyError if the values are not a valid charge."""
        if self.sensitivity_squared < 1 or self.share < 0 or self.honest < 1:
            raise PrivacyError(
                "a charge's sensitivity is not positive, its share is negative, or it has no honest share; recalibrate "
                "the mechanism"
            )

    @property
    def mu_squared(self) -> float:
        """Return μ² of one discrete Gaussian with the total variance of the honest shares."""
        variance = self.honest * self.share * self.share - SMOOTHING_VARIANCE
        is_sufficient = self.share * self.share > SMOOTHING_VARIANCE
        return math.nextafter(self.sensitivity_squared / variance, math.inf) if is_sufficient else math.inf

    @property
    def if_others_collude(self) -> "CellSum":
        """Return the cost if all other members collude, which leaves only this device's share of the noise."""
        return replace(self, honest=1)

    @property
    def epsilon(self) -> float:
        """Return zero, since no part of the release is pure."""
        return 0.0

    @property
    def terms(self) -> str:
        """See Event.terms."""
        noise = {"sensitivity_squared": self.sensitivity_squared, "share": self.share, "honest": self.honest}
        return _canonical_json("cell-sum", {**noise, "units": {"spans": self.units.spans}})


@dataclass(frozen=True, slots=True)
class RecordReleased:
    """The cost of one record released by a pure ε mechanism.

    Attributes:
        record: record index, from 0.
        scheme: name of the scheme.
        features: d of the scheme.
        classes: c of the scheme.
        epsilon: pure ε under replace-one; infinite if there is no noise.
    """

    record: int
    scheme: str
    features: int
    classes: int
    epsilon: float

    def __post_init__(self) -> None:
        """Raise PrivacyError if the values are not a valid charge."""
        if self.record < 0 or not self.epsilon > 0:
            raise PrivacyError("a charge's record index is negative, or its ε is not positive; set privacy.epsilon")

    @property
    def units(self) -> Units:
        """Return the single unit that represents the record."""
        return Units(((self.record, self.record),))

    @property
    def mu_squared(self) -> float:
        """Return zero, since no part of the release is Gaussian."""
        return 0.0

    @property
    def terms(self) -> str:
        """See Event.terms; a float's shortest decimal identifies it exactly."""
        return _canonical_json("record", {**asdict(self), "epsilon": repr(self.epsilon)})


@dataclass(frozen=True, slots=True)
class PureRelease:
    """The cost of a sum over privacy units with noise that provides pure ε.

    Attributes:
        law: name of the noise distribution, or `none`.
        copies: number of one-vs-all copies in the sum.
        features: number of values in a copy.
        sensitivity: sensitivity in the norm of the noise distribution, in grid units; positive.
        scale: noise scale, in grid units; 0 for no noise.
        epsilon: pure ε, at least sensitivity / scale; infinite if there is no guarantee.
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
        """Raise PrivacyError if the values are not a valid charge, or if the charge is too small."""
        if self.sensitivity < 1 or self.scale < 0 or not self.epsilon > 0:
            raise PrivacyError("a charge's sensitivity or ε is not positive; recalibrate the mechanism")
        if math.isfinite(self.epsilon) and Fraction(self.epsilon) * self.scale < self.sensitivity:
            raise PrivacyError("the charge is smaller than the cost of the release; recalibrate the mechanism")

    @property
    def mu_squared(self) -> float:
        """Return zero, since no part of the release is Gaussian."""
        return 0.0

    @property
    def terms(self) -> str:
        """See Event.terms; a float's shortest decimal identifies it exactly."""
        return _canonical_json("pure-sum", {**asdict(self), "epsilon": repr(self.epsilon)})


@dataclass(frozen=True, slots=True)
class UnprovedRelease:
    """A release without a proven guarantee: either noise-free, or by a mechanism whose claim does not hold.

    Attributes:
        mechanism: name of the mechanism; `none` for a noise-free sum.
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
        return _canonical_json("unproved", {"mechanism": self.mechanism, "units": {"spans": self.units.spans}})


@dataclass(frozen=True, slots=True)
class LedgerMove:
    """A ledger's move to another location, recorded as a charge that costs nothing.

    Attributes:
        nonce: nonce of this move, as hexadecimal digits.
    """

    nonce: str

    @property
    def units(self) -> Units:
        """Return all units, which the move affects at no cost."""
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
        return _canonical_json("moved", {"nonce": self.nonce})


def with_units(event: Event, units: Units) -> Event:
    """Return the event with its units replaced; the cost for one record does not change."""
    if not any(field.name == "units" for field in fields(event)):  # type: ignore[arg-type]
        return event
    return replace(event, units=units)  # type: ignore[type-var]


def equal_except_units(first: Event, second: Event) -> bool:
    """Return whether two events are equal except for the units that they touch."""
    return with_units(first, EVERY).terms == with_units(second, EVERY).terms


def _canonical_json(kind: str, fields: dict[str, object]) -> str:
    return json.dumps({"event": kind, **fields}, sort_keys=True, separators=(",", ":"))
