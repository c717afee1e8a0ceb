"""An estimate from an opened sum: values with their errors, beside what is known publicly without the fleet."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Estimate:
    """One product of an opened sum.

    Attributes:
        name: the product's name in files, for example `mean` or `monthly-profile`.
        title: the product's name for people.
        unit: unit of the values; empty for the units of the data.
        labels: what each value is about, n texts.
        values: float64[n].
        errors: standard errors of the values, float64[n], of everything that `error_sources` lists.
        error_sources: what the errors include: `noise`, `sampling` (which homes took part) or `bias` (a declared one).
        parts: the standard errors from each source alone, float64[n], keyed by source; empty if there is only one.
        prior: the public prior for the same values, float64[n]; None if there is none.
        prior_error: root mean squared error of the prior; None if it is not known.
        days: the number of days that the values are about; None if the task does not say.
        times: the time of each value, aware; None if the values have none.
        per_row: number of values in each row of the picture, for example 48 for the half hours of a day.
        remarks: what else a reader must know, one sentence each.
        truth: the true values, float64[n], if this is a rehearsal with made-up homes; otherwise None.
    """

    name: str
    title: str
    unit: str
    labels: tuple[str, ...]
    values: Floats
    errors: Floats
    error_sources: tuple[str, ...]
    parts: Mapping[str, Floats] = field(default_factory=dict)
    prior: Floats | None = None
    prior_error: float | None = None
    days: int | None = None
    times: tuple[datetime, ...] | None = None
    per_row: int | None = None
    remarks: tuple[str, ...] = ()
    truth: Floats | None = None

    @property
    def error(self) -> float:
        """The root mean square of the standard errors."""
        return float(np.sqrt(np.mean(self.errors**2)))

    @property
    def prior_is_better(self) -> bool:
        """Whether the public prior is expected to be closer to the truth than the values."""
        return self.prior is not None and self.prior_error is not None and self.prior_error < self.error

    @property
    def warnings(self) -> tuple[str, ...]:
        """Reasons not to use the values, one sentence each."""
        if self.prior_is_better:
            return ("The public prior is expected to be closer to the truth than these values: use the prior.",)
        if self.prior is None and float(np.sqrt(np.mean(self.values**2))) < 2 * self.error:
            return ("The values are hardly larger than their errors: with so few homes, they say little.",)
        return ()
