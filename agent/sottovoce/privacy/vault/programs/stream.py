"""A total for every window of an unbounded stream: the private half of a continually published statistic.

The release at window t is Σ_j c_j x_{t-j} + noise, where x_k is the clipped total of window k and c is the first column
of a Toeplitz square root of the prefix sum, truncated to a band (Henzinger, Upadhyay & Upadhyay 2023; Choquette-Choo et
al. 2023). The number of releases to which a window contributes equals the band's width. Together, these releases amount
to a single Gaussian release of the window, so the window is charged once, when it is first released. This holds even if
later windows depend on earlier releases (Denisov et al. 2022, Theorem 2.1).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sottovoce.data import Records
from sottovoce.privacy.accounting.events import GaussianSum
from sottovoce.privacy.accounting.units import Units
from sottovoce.privacy.api import Query, Refused
from sottovoce.privacy.mechanisms.stream_sum import LaggedTotal, StreamSum
from sottovoce.privacy.vault.programs.program import Plan


@dataclass(frozen=True, slots=True)
class WindowTotals:
    """Program for the `total` query of slot t, whose point is empty: the banded sum at window t.

    Attributes:
        mechanism: bound, coefficients and noise of every release.
        windows: first and last windows that may be queried.
    """

    mechanism: StreamSum
    windows: tuple[int, int]

    def plan(self, query: Query) -> Plan[Iterator[LaggedTotal]] | Refused:
        """Return a plan that charges the requested window; earlier windows were charged when they were requested.

        A window that was never requested is left out of later releases, because it was never charged.
        """
        if query.kind != "total" or query.point.size:
            return Refused(query.id, "query", "the vault's program does not support this query")
        if not self.windows[0] <= query.slot <= self.windows[1]:
            return Refused(query.id, "record", "this window is outside the declared range")
        first = max(self.windows[0], query.slot - len(self.mechanism.coefficients) + 1)
        earlier = tuple(Query(query.learner, "total", slot, query.point).id for slot in range(first, query.slot))
        event = GaussianSum(
            self.mechanism.sensitivity_squared, self.mechanism.sigma, Units(((query.slot, query.slot),))
        )
        return Plan(event, self.mechanism, earlier)

    def compute(self, query: Query, records: Records) -> Iterator[LaggedTotal]:
        """Yield the age, in windows, and the total, float64[1, P], of each window that was paid for."""
        if records.windows is None:
            return
        for window in np.unique(records.windows):
            yield query.slot - int(window), _sum_rows(records.features[records.windows == window])


def _sum_rows(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    with np.errstate(over="ignore", invalid="ignore"):  # a warning would reveal something about a record
        return np.add.reduce(np.ascontiguousarray(rows), axis=0, keepdims=True)
