"""Terms for sums of clipped gradients with noise, used by push-sum and every other gradient learner."""

import math
from collections import Counter
from dataclasses import dataclass, replace
from typing import Literal

from sottovoce.data import Records
from sottovoce.errors import DataError, InternalError, PrivacyError
from sottovoce.kernels import MAX_SUMMED, Kernel
from sottovoce.kernels.decentralised.clipping import Rule, row_length
from sottovoce.privacy.accounting.events import Event, UnprovedRelease
from sottovoce.privacy.accounting.gaussian import allowed_mu
from sottovoce.privacy.accounting.units import EVERY, Units
from sottovoce.privacy.api import PrivacyStatement
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.ledger.ledger import Ledger
from sottovoce.privacy.mechanisms.clipped_sum import ClippedSum, calibrate, exact_sum
from sottovoce.privacy.mechanisms.noise import NoiseSource
from sottovoce.privacy.mechanisms.sampled_sum import calibrate_sampled
from sottovoce.privacy.mechanisms.sampling import Poisson, Sampling
from sottovoce.privacy.terms.base import check_unit, sum_mechanism, unit_records
from sottovoce.privacy.terms.guarantee import gradient_guarantee
from sottovoce.privacy.vault.numbering import block_bounds, number_by_hash
from sottovoce.privacy.vault.programs.centred import CentredSum
from sottovoce.privacy.vault.programs.gradient import Blocks, GradientSum, NormalisedSum
from sottovoce.privacy.vault.vault import VaultContext

MEAN_SHARE = 0.15
"""Share of the budget's μ² that the sum of records costs; hardly any other share does better (decision 53)."""


@dataclass(frozen=True, slots=True)
class RecordSum:
    """The sum of a device's records, which it releases once, before its gradients.

    Attributes:
        columns: number of columns of a transformed record, D + 1.
        bias: the constant b in the last column; the other columns have at most length 1.
    """

    columns: int
    bias: float

    @property
    def clip(self) -> float:
        """The largest norm of a record, √(1 + b²)."""
        return math.sqrt(1 + self.bias**2)

    def mechanism(self, budget: Budget) -> ClippedSum:
        """Return the bound and noise of the sum.

        Raises:
            PrivacyError: if the noise cannot be calibrated.
        """
        total = 0.0 if budget.epsilon is None else allowed_mu(budget.epsilon, budget.delta) ** 2
        return sum_mechanism(budget, clip=self.clip, size=self.columns, spent_mu_squared=(1 - MEAN_SHARE) * total)


@dataclass(frozen=True, slots=True)
class GradientTerms:
    """Public terms for a learner that uses gradient sums.

    Attributes:
        learner: the learner's name.
        releases: number of gradient sums that the budget covers; with blocks, the number of passes.
        clip: L2 clip norm of one privacy unit's contribution to a sum; None if there is no clipping and no noise.
        windows: first and last windows that may be queried; None for all current and future windows.
        sampling: the records in a sum. `full`: all records; `poisson`: each record with probability batch / of;
            `blocks`: the `of // batch` blocks of record numbers in turn, each once per pass.
        batch: expected number of records in a batch.
        of: expected number of records on a device.
        records: the sum of records that precedes the gradients, by which they are centred; None if they are not.
    """

    learner: str
    releases: int
    clip: float | None
    windows: tuple[int, int] | None = None
    sampling: Literal["full", "poisson", "blocks"] = "full"
    batch: int = 1
    of: int = 1
    records: RecordSum | None = None

    def context(self, records: Records, kernel: Kernel | None, ledger: Ledger, noise: NoiseSource) -> VaultContext:
        """See Terms.context."""
        if kernel is None:
            raise InternalError(
                "a vault for gradient sums was created without a kernel: this is a bug; please report it"
            )
        budget = ledger.budget
        mechanism, program = self.program(
            kernel, budget, kernel.size, is_presummed=kernel_clips_and_sums(kernel, budget, records)
        )
        statement = self.statement(budget, mechanism)
        own_records = unit_records(records, budget.unit)
        if self.sampling == "blocks":
            own_records = number_by_hash(own_records, ledger)
        centred = self.centred(program, budget)
        return VaultContext(own_records, centred, ledger, noise, statement, self.lifetime(program, budget))

    def centred(self, program: GradientSum | NormalisedSum, budget: Budget) -> GradientSum | NormalisedSum | CentredSum:
        """Return the program that also answers the query for the sum of records, if the records are centred."""
        if self.records is None:
            return program
        return CentredSum(program, self.records.mechanism(budget), self.records.bias)

    def statement(self, budget: Budget, mechanism: ClippedSum) -> PrivacyStatement:
        """Return the guarantee for all gradient sums and the sum of records."""
        record_sum = None if self.records is None else self.records.mechanism(budget)
        return gradient_guarantee(budget, mechanism, self.clip, self.sampling, record_sum)

    def lifetime(self, program: GradientSum, budget: Budget) -> dict[Event, int]:
        """See VaultContext."""
        mechanism, event = program.mechanism, program.event
        if mechanism is None or budget.epsilon is None:
            return {}
        charges: Counter[Event] = Counter({mechanism.event if event is None else event: self.releases})
        if self.records is not None:
            charges[self.records.mechanism(budget).event] += 1
        return dict(charges)

    def program(
        self, kernel: Kernel, budget: Budget, size: int, *, is_presummed: bool
    ) -> tuple[ClippedSum, GradientSum]:
        """Return the mechanism for releases of `size` values, and the program that answers queries with it.

        Args:
            kernel: the model.
            budget: the ledger's budget.
            size: number of values in a release.
            is_presummed: whether the kernel clips and sums; see `kernel_clips_and_sums`.

        Raises:
            PrivacyError: see `context`.
        """
        if self.sampling != "full" or self.records is not None:
            check_unit(self.learner, budget)
        mechanism, event = self._mechanism(budget, self.clip, size, kernel.sum_error if is_presummed else None)
        units = EVERY if budget.unit != "window" or self.windows is None else Units((self.windows,))
        clip = math.inf if self.clip is None else self.clip
        return mechanism, GradientSum(
            kernel, mechanism, budget.unit, units, event, self._batches(), clip if is_presummed else None
        )

    def _mechanism(
        self, budget: Budget, clip: float | None, size: int, sum_error: float | None
    ) -> tuple[ClippedSum, Event]:
        if budget.epsilon is None:
            return exact_sum(clip=clip, size=size, sum_error=sum_error), UnprovedRelease("none")
        if clip is None:
            raise PrivacyError(
                f"learner `{self.learner}` adds no noise, so it cannot guarantee any ε; use `clipd2p`, or "
                "`--epsilon inf` in the testbed"
            )
        if self.sampling != "full" and self.records is not None:
            raise PrivacyError(
                f"learner `{self.learner}`: a sum of records and sampled gradients are not composed here; set "
                'learner.centre = "none", or sampling = "full"'
            )
        if self.sampling == "poisson":
            return calibrate_sampled(
                clip=clip,
                size=size,
                releases=self.releases,
                epsilon=budget.epsilon,
                delta=budget.delta,
                neighbouring=budget.neighbouring,
                batch=self.batch,
                of=self.of,
                sum_error=sum_error,
            )
        mechanism = calibrate(
            clip=clip,
            size=size,
            releases=self.releases,
            epsilon=budget.epsilon,
            delta=budget.delta,
            neighbouring=budget.neighbouring,
            sum_error=sum_error,
            spent_mu_squared=0.0 if self.records is None else self.records.mechanism(budget).event.mu_squared,
        )
        return mechanism, mechanism.event

    def _batches(self) -> Sampling | Blocks | None:
        match self.sampling:
            case "full":
                return None
            case "poisson":
                return Poisson(self.batch, self.of)
            case "blocks":
                return Blocks(tuple(block_bounds(max(1, self.of // self.batch)).tolist()), self.releases)


def kernel_clips_and_sums(kernel: Kernel, budget: Budget, records: Records | None) -> bool:
    """Return whether the kernel clips and sums: it must support this, and the clipped unit must be a record.

    Args:
        kernel: the model.
        budget: the ledger's budget.
        records: records that the kernel would sum; None if they are not available.

    Raises:
        DataError: if the kernel clips and sums, but there are more records than it can sum within its stated error.
    """
    if kernel.sum_error is None or budget.unit != "record":
        return False
    if records is not None and len(records) > MAX_SUMMED:
        raise DataError(f"the error of this model's sums is proved for at most {MAX_SUMMED} records; use fewer records")
    return True


_RULES: dict[Rule, str] = {
    "decay": "in units of a threshold that decreases by a public rule",
    "quantile": "in units of a threshold that follows earlier releases, which include a noised bit per record",
    "automatic": "of gradients divided by their own norm",
}


@dataclass(frozen=True, slots=True)
class NormalisedTerms:
    """Public terms for a learner with a moving threshold.

    Attributes:
        sums: terms for releases, batches and windows; their clip norm is 1, in units of the threshold.
        rule: how a gradient is normalised.
    """

    sums: GradientTerms
    rule: Rule

    @property
    def learner(self) -> str:
        """See Terms.learner."""
        return self.sums.learner

    def context(self, records: Records, kernel: Kernel | None, ledger: Ledger, noise: NoiseSource) -> VaultContext:
        """See Terms.context."""
        if kernel is None:
            raise InternalError(
                "a vault for gradient sums was created without a kernel: this is a bug; please report it"
            )
        budget, sums = ledger.budget, self.sums
        by_kernel = self.rule == "decay" and kernel_clips_and_sums(kernel, budget, records)
        mechanism, program = sums.program(kernel, budget, row_length(self.rule, kernel.size), is_presummed=by_kernel)
        statement = sums.statement(budget, mechanism)
        described = replace(statement, mechanism=f"{statement.mechanism}, {_RULES[self.rule]}")
        lifetime = sums.lifetime(program, budget)
        own_records = unit_records(records, budget.unit)
        centred = sums.centred(NormalisedSum(program, self.rule), budget)
        return VaultContext(own_records, centred, ledger, noise, described, lifetime)
