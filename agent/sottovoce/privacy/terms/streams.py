"""Terms for a statistic that is published window by window, indefinitely."""

import math
from dataclasses import dataclass

from sottovoce.data import Records
from sottovoce.errors import DataError, PrivacyError
from sottovoce.kernels import Kernel
from sottovoce.privacy.accounting.events import Event, GaussianSum
from sottovoce.privacy.accounting.streams import coefficients
from sottovoce.privacy.api import PrivacyStatement, Status
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.ledger.ledger import Ledger
from sottovoce.privacy.mechanisms.noise import NoiseSource
from sottovoce.privacy.mechanisms.stream_sum import STREAM_BITS, StreamSum, calibrate_stream
from sottovoce.privacy.terms.base import unit_records
from sottovoce.privacy.terms.guarantee import THREAT_MODEL
from sottovoce.privacy.vault.programs.stream import WindowTotals
from sottovoce.privacy.vault.vault import VaultContext


@dataclass(frozen=True, slots=True)
class StreamTerms:
    """Public terms for a statistic that is published window by window.

    Attributes:
        features: number of values in a window's total.
        clip: L2 clip norm of a window's total.
        band: number of windows that a release covers.
        windows: first and last windows that may be queried.
    """

    features: int
    clip: float
    band: int
    windows: tuple[int, int]
    learner: str = "stream"

    def context(self, records: Records, kernel: Kernel | None, ledger: Ledger, noise: NoiseSource) -> VaultContext:
        """See Terms.context."""
        budget = ledger.budget
        if budget.epsilon is None or budget.unit != "window":
            raise PrivacyError(
                "a stream of totals requires a finite ε and a window as the privacy unit; set privacy.unit=window"
            )
        if records.features.shape[1] != self.features:
            raise DataError(f"the records do not have the stream's {self.features} features; correct data.features")
        mechanism = calibrate_stream(
            clip=self.clip,
            size=self.features,
            coefficients=coefficients("square-root", self.band, STREAM_BITS),
            bits=STREAM_BITS,
            epsilon=budget.epsilon,
            delta=budget.delta,
            neighbouring=budget.neighbouring,
        )
        program, statement = WindowTotals(mechanism, self.windows), stream_guarantee(budget, mechanism, self.clip)
        lifetime: dict[Event, int] = {GaussianSum(mechanism.sensitivity_squared, mechanism.sigma): 1}
        return VaultContext(unit_records(records, "window"), program, ledger, noise, statement, lifetime)


def stream_guarantee(budget: Budget, mechanism: StreamSum, clip: float) -> PrivacyStatement:
    """Return the guarantee for all totals of a stream of any length."""
    return PrivacyStatement(
        unit=budget.unit,
        neighbouring=budget.neighbouring,
        mechanism=(
            f"exact discrete Gaussian on the grid 2^{mechanism.exponent}, "
            f"σ = {math.ldexp(mechanism.sigma, mechanism.exponent):.6g}, on Toeplitz-weighted sums of "
            f"{len(mechanism.coefficients)} windows, each window's total clipped at {clip:g}"
        ),
        composition="all releases that include a window are one Gaussian release; windows compose in parallel",
        epsilon=budget.epsilon,
        delta=budget.delta,
        threat_model=THREAT_MODEL + "; the existence of a window is public",
        status=Status.PROVED,
        reason="docs/explanation/privacy-model.md#continual-release-of-a-statistic",
    )
