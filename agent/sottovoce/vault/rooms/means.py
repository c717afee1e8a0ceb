"""One vector of a whole device, once: what averaging over a fleet asks of its vaults."""

from dataclasses import dataclass, replace

from sottovoce.accounting.events import Event
from sottovoce.data import Records
from sottovoce.door import PrivacyStatement
from sottovoce.errors import DataError, PrivacyError
from sottovoce.kernels import Kernel
from sottovoce.vault.budget import Budget
from sottovoce.vault.clipped_sum import ClippedSum, DiscreteGaussian, calibrate, exact
from sottovoce.vault.guarantee import guarantee
from sottovoce.vault.ledger import Ledger
from sottovoce.vault.noise import NoiseSource
from sottovoce.vault.programs.mean import DeviceMean
from sottovoce.vault.rooms.terms import unit_records
from sottovoce.vault.vault import Room


@dataclass(frozen=True, slots=True)
class MeanTerms:
    """What a learner of a fleet's mean asks of its vault, all of it public.

    Attributes:
        learner: its name.
        features: numbers in the vector.
        clip: L2 threshold of the device's vector.
    """

    learner: str
    features: int
    clip: float

    def room(self, records: Records, kernel: Kernel | None, ledger: Ledger, noise: NoiseSource) -> Room:
        """See Terms.room."""
        budget = ledger.budget
        if budget.unit != "device":
            raise PrivacyError(
                f"learner `{self.learner}` bounds the one vector of a whole device, not what a {budget.unit} adds to "
                "it: set privacy.unit=device"
            )
        if records.features.shape[1] != self.features:
            raise DataError(f"the records do not have the {self.features} features declared: correct data.features")
        mechanism = self.mechanism(budget)
        statement = self._statement(budget, mechanism)
        lifetime: dict[Event, int] = {mechanism.event: 1} if isinstance(mechanism, DiscreteGaussian) else {}
        return Room(unit_records(records, "device"), DeviceMean(mechanism), ledger, noise, statement, lifetime)

    def mechanism(self, budget: Budget) -> ClippedSum:
        """Bound and noise of the one release.

        Raises:
            PrivacyError: it cannot be calibrated.
        """
        if budget.epsilon is None:
            return exact(clip=self.clip, size=self.features)
        return calibrate(
            clip=self.clip,
            size=self.features,
            releases=1,
            epsilon=budget.epsilon,
            delta=budget.delta,
            neighbouring=budget.neighbouring,
        )

    def deviation(self, budget: Budget) -> float:
        """σ of the noise on each number of a device's vector; 0 for none."""
        mechanism = self.mechanism(budget)
        return mechanism.sigma * mechanism.step if isinstance(mechanism, DiscreteGaussian) else 0.0

    def _statement(self, budget: Budget, mechanism: ClippedSum) -> PrivacyStatement:
        statement = guarantee(budget, mechanism, self.clip)
        if not isinstance(mechanism, DiscreteGaussian):
            return replace(statement, mechanism=f"none: the exact vector of a device, clipped at {self.clip:g}")
        return replace(
            statement,
            mechanism=(
                f"exact discrete Gaussian on the grid 2^{mechanism.exponent}, "
                f"σ = {mechanism.sigma * mechanism.step:.6g}, on one vector of the device, clipped at {self.clip:g}"
            ),
            composition="one release of a device, for ever",
        )
