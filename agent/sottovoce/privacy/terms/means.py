"""Terms for averaging over a fleet, in which each device releases a single vector once."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from sottovoce.data import Records
from sottovoce.data.products import Products
from sottovoce.errors import DataError, PrivacyError
from sottovoce.kernels import Kernel
from sottovoce.kernels.profile import Profile
from sottovoce.privacy.accounting.events import Event
from sottovoce.privacy.api import PrivacyStatement
from sottovoce.privacy.cell import Cell
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.ledger.ledger import Ledger
from sottovoce.privacy.mechanisms.cell_sum import CellMechanism, calibrate_cell
from sottovoce.privacy.mechanisms.clipped_sum import ClippedSum, DiscreteGaussian
from sottovoce.privacy.mechanisms.noise import NoiseSource
from sottovoce.privacy.secure_sum.statements import Statement
from sottovoce.privacy.terms.base import sum_mechanism, unit_records
from sottovoce.privacy.terms.cell_guarantee import cell_guarantee
from sottovoce.privacy.terms.guarantee import gradient_guarantee
from sottovoce.privacy.vault.cell_context import CellContext
from sottovoce.privacy.vault.cell_member import CellMember
from sottovoce.privacy.vault.programs.once import DeviceMean
from sottovoce.privacy.vault.vault import VaultContext


@dataclass(frozen=True, slots=True)
class MeanTerms:
    """Public terms for a learner that computes a fleet's mean.

    Attributes:
        learner: the learner's name.
        profile: the vector that the device releases, and its bound.
        cell: the cell within which noise is shared; None if each device adds all of its noise itself.
    """

    learner: str
    profile: Profile | Products
    cell: Cell | None = None

    def context(self, records: Records, kernel: Kernel | None, ledger: Ledger, noise: NoiseSource) -> VaultContext:
        """See Terms.context."""
        budget = ledger.budget
        if budget.unit != "device":
            raise PrivacyError(
                f"learner `{self.learner}` bounds the vector of a whole device, not the contribution of one "
                f"{budget.unit}; set privacy.unit=device"
            )
        if records.features.shape[1] != self.profile.width:
            raise DataError(
                f"the records do not have the declared {self.profile.width} features; correct data.features"
            )
        own_records = unit_records(records, "device")
        if self.cell is not None:
            return self._cell_context(own_records, ledger, noise)
        mechanism = self.mechanism(budget)
        statement = self._statement(budget, mechanism)
        lifetime: dict[Event, int] = {mechanism.event: 1} if isinstance(mechanism, DiscreteGaussian) else {}
        return VaultContext(own_records, DeviceMean(self.profile, mechanism), ledger, noise, statement, lifetime)

    def _cell_context(self, records: Records, ledger: Ledger, noise: NoiseSource) -> VaultContext:
        mechanism = self.cell_mechanism(ledger.budget)
        cell, program = mechanism.cell, DeviceMean(self.profile, None)

        def member(verify_signature: Callable[[Statement], None]) -> CellContext:
            cell_member = CellMember(ledger.owner, cell, verify_signature, noise)
            return CellContext(
                self.learner, cell_member, mechanism, 0, lambda _, rows: program.vector(rows), records, ledger, noise
            )

        lifetime: dict[Event, int] = {mechanism.largest_event: mechanism.rounds} if mechanism.sigma else {}
        statement = cell_guarantee(ledger.budget, mechanism, self.profile.bound)
        return VaultContext(records, program, ledger, noise, statement, lifetime, make_cell=member)

    def mechanism(self, budget: Budget) -> ClippedSum:
        """Return the mechanism with the bound and noise of the only release.

        Raises:
            PrivacyError: if the noise cannot be calibrated.
        """
        return sum_mechanism(budget, clip=self.profile.bound, size=self.profile.size)

    def cell_mechanism(self, budget: Budget) -> CellMechanism:
        """Return the mechanism for a device's contribution to a cell's sum.

        Raises:
            PrivacyError: if the noise cannot be calibrated, or if there is no cell.
        """
        if self.cell is None:
            raise PrivacyError("each device adds its own noise, so there is no cell; set privacy.noise=cell")
        return calibrate_cell(
            self.cell,
            sums=1,
            clip=self.profile.bound,
            size=self.profile.size,
            epsilon=budget.epsilon,
            delta=budget.delta,
            neighbouring=budget.neighbouring,
        )

    def deviation(self, budget: Budget, members: int) -> float:
        """Return σ of the noise that a device adds to each coefficient; 0 for no noise.

        In a cell, this is the device's share of the noise if `members` devices take part.
        """
        if self.cell is not None:
            shared = self.cell_mechanism(budget)
            return shared.share(members) * shared.step
        mechanism = self.mechanism(budget)
        return mechanism.sigma * mechanism.step if isinstance(mechanism, DiscreteGaussian) else 0.0

    def _statement(self, budget: Budget, mechanism: ClippedSum) -> PrivacyStatement:
        clip = self.profile.bound
        statement = gradient_guarantee(budget, mechanism, clip)
        if not isinstance(mechanism, DiscreteGaussian):
            return replace(statement, mechanism=f"none: the device's exact vector, clipped at {clip:g}")
        return replace(
            statement,
            mechanism=(
                f"exact discrete Gaussian on the grid 2^{mechanism.exponent}, "
                f"σ = {mechanism.sigma * mechanism.step:.6g}, on the device's vector, clipped at {clip:g}"
            ),
            composition="a single release per device",
        )
