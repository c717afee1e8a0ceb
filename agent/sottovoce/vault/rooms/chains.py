"""Chains of steps without replacement, at a public period (Jin, He & Dai 2023)."""

from dataclasses import dataclass

from sottovoce.data import Records
from sottovoce.errors import DataError, InternalError, PrivacyError
from sottovoce.kernels import Kernel
from sottovoce.vault.bounded_point import calibrate_point
from sottovoce.vault.guarantee import chain_guarantee
from sottovoce.vault.ledger import Ledger
from sottovoce.vault.lemmas import chain_sensitivity, rounding, smooth
from sottovoce.vault.noise import NoiseSource
from sottovoce.vault.programs import Chain
from sottovoce.vault.rooms.terms import check_unit, unit_records
from sottovoce.vault.vault import Room


@dataclass(frozen=True, slots=True)
class ChainTerms:
    """What a learner of chains without replacement asks of its vault, all of it public.

    Attributes:
        learner: its name.
        step_size: η.
        batch: b, records in a step.
        period: R, steps in a chain, of which the last is released.
        passes: over the records.
    """

    learner: str
    step_size: float
    batch: int
    period: int
    passes: int

    def room(self, records: Records, kernel: Kernel | None, ledger: Ledger, noise: NoiseSource) -> Room:
        """See Terms.room."""
        if kernel is None:
            raise InternalError("a vault of chains needs a kernel: report this defect")
        budget = ledger.budget
        check_unit(self.learner, budget)
        if budget.epsilon is None:
            raise PrivacyError(
                f"learner `{self.learner}` has no variant without noise here: set a finite privacy.epsilon"
            )
        distance = chain_sensitivity(
            smooth(kernel),
            step_size=self.step_size,
            batch=self.batch,
            steps=self.period,
            neighbouring=budget.neighbouring,
        )
        strays = rounding(
            features=records.features.shape[1],
            classes=kernel.size // records.features.shape[1],
            step_size=self.step_size,
            batch=self.batch,
            steps=self.period,
        )
        mechanism = calibrate_point(
            distance=distance + strays,
            size=kernel.size,
            releases=self.passes,
            epsilon=budget.epsilon,
            delta=budget.delta,
        )
        program = Chain(kernel, mechanism, self.step_size, self.batch, self.period, self.passes, len(records))
        if program.chains < 1:
            raise DataError(
                f"learner `{self.learner}`: {len(records)} records make no chain of {self.period} batches of "
                f"{self.batch}: take smaller batches or a shorter period"
            )
        statement = chain_guarantee(budget, mechanism, self.passes)
        return Room(unit_records(records, "record"), program, ledger, noise, statement)
