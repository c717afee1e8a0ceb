"""Terms for DP-SGD over a whole cell's records, with sums of clipped gradients within the cell."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sottovoce.data import Records
from sottovoce.errors import InternalError, PrivacyError
from sottovoce.kernels import Kernel
from sottovoce.privacy.accounting.events import Event
from sottovoce.privacy.api import Query
from sottovoce.privacy.cell import Cell
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.ledger.ledger import Ledger
from sottovoce.privacy.mechanisms.cell_sum import CellMechanism, calibrate_cell
from sottovoce.privacy.mechanisms.clipped_sum import Batches
from sottovoce.privacy.mechanisms.noise import NoiseSource
from sottovoce.privacy.secure_sum.statements import Statement
from sottovoce.privacy.terms.base import check_unit, unit_records
from sottovoce.privacy.terms.cell_guarantee import cell_guarantee
from sottovoce.privacy.terms.gradients import RecordSum, kernel_clips_and_sums
from sottovoce.privacy.vault.cell_context import CellContext
from sottovoce.privacy.vault.cell_member import CellMember
from sottovoce.privacy.vault.programs.centred import CentredCellSum
from sottovoce.privacy.vault.programs.gradient import GradientSum
from sottovoce.privacy.vault.vault import VaultContext


@dataclass(frozen=True, slots=True)
class CellGradientTerms:
    """Public terms for clipped sums in cells.

    Attributes:
        learner: the learner's name.
        sums: number of planned sums.
        clip: L2 clip norm of one privacy unit's contribution to a sum.
        cell: the cell within which noise is shared.
        rows: upper bound on the number of rows of one device, which determines the width of a sum's values.
        records: the sum of records that precedes the gradients, by which they are centred; None if they are not.
    """

    learner: str
    sums: int
    clip: float
    cell: Cell
    rows: int
    records: RecordSum | None = None

    def context(self, records: Records, kernel: Kernel | None, ledger: Ledger, noise: NoiseSource) -> VaultContext:
        """See Terms.context."""
        if kernel is None:
            raise InternalError(
                "a vault for gradient sums was created without a kernel: this is a bug; please report it"
            )
        budget = ledger.budget
        if budget.unit == "window":
            raise PrivacyError(
                f"learner `{self.learner}` sums over records or devices, not windows; set privacy.unit=record or device"
            )
        by_kernel, own_records = kernel_clips_and_sums(kernel, budget, records), unit_records(records, budget.unit)
        if self.records is not None:
            check_unit(self.learner, budget)
            if by_kernel:
                raise PrivacyError(
                    f"learner `{self.learner}`: this model's kernel clips gradients itself, so nothing would clip the "
                    'records in their sum; set learner.centre = "none"'
                )
        mechanism = self.mechanism(kernel, budget, by_kernel=by_kernel)
        program = GradientSum(kernel, None, budget.unit, clip=self.clip if by_kernel else None)
        centred = None
        if self.records is not None:
            centred = CentredCellSum(program, self.records.columns, self.records.bias, self.clip / self.records.clip)

        def compute(point: NDArray[np.float64], rows: Records) -> Batches:
            if centred is not None:
                return centred.compute(point, rows)
            return program.compute(Query(self.learner, "gradient", 0, point), rows)

        def member(verify_signature: Callable[[Statement], None]) -> CellContext:
            return CellContext(
                self.learner,
                CellMember(ledger.owner, self.cell, verify_signature, noise),
                mechanism,
                mechanism.size,
                compute,
                own_records,
                ledger,
                noise,
            )

        lifetime: dict[Event, int] = {mechanism.largest_event: mechanism.rounds} if mechanism.sigma else {}
        return VaultContext(
            own_records,
            program,
            ledger,
            noise,
            cell_guarantee(budget, mechanism, self.clip),
            lifetime,
            make_cell=member,
        )

    def mechanism(self, kernel: Kernel, budget: Budget, *, by_kernel: bool) -> CellMechanism:
        """Return the mechanism with the bound and noise of each device's contribution.

        Args:
            kernel: the model.
            budget: the ledger's privacy budget.
            by_kernel: whether the kernel clips and sums.

        Raises:
            PrivacyError: if the noise cannot be calibrated.
        """
        return calibrate_cell(
            self.cell,
            sums=self.sums,
            clip=self.clip,
            size=kernel.size + (0 if self.records is None else self.records.columns),
            epsilon=budget.epsilon,
            delta=budget.delta,
            neighbouring=budget.neighbouring,
            sum_error=kernel.sum_error if by_kernel else None,
            rows=self.rows if budget.unit == "record" else 1,
        )
