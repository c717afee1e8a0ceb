"""Terms of learners from other packages: sums of one vector per record, and terms that a package enforces itself."""

from dataclasses import dataclass, replace

from sottovoce.data import Records
from sottovoce.kernels import Kernel
from sottovoce.privacy.accounting.events import Event
from sottovoce.privacy.ledger.ledger import Ledger
from sottovoce.privacy.mechanisms.clipped_sum import DiscreteGaussian
from sottovoce.privacy.mechanisms.noise import NoiseSource
from sottovoce.privacy.terms.base import Terms, check_unit, sum_mechanism, unit_records
from sottovoce.privacy.terms.guarantee import gradient_guarantee
from sottovoce.privacy.vault.programs.rows import Row, RowSum
from sottovoce.privacy.vault.vault import VaultContext


@dataclass(frozen=True, slots=True)
class RowSumTerms:
    """Public terms for noisy sums of vectors, each computed from one record: Σ clip(row(point, features, label)).

    The vault calls `row` with one record at a time, clips what it returns and adds the noise. The guarantee therefore
    holds for any function that keeps nothing between two calls.

    Attributes:
        learner: the learner's name.
        kind: the kind of query, a word of your choice.
        size: P, number of values in a row.
        clip: L2 norm at which each row is clipped.
        releases: number of sums that the budget covers.
        row: computes a record's row, float64[P], from the query's point, float64[Q], the record's transformed
            features, float64[d], and its label; a row that cannot be computed, or is not finite, counts as 0.
        point_size: Q, number of values in a query's point; 0 if the row depends on nothing but the record.
    """

    learner: str
    kind: str
    size: int
    clip: float
    releases: int
    row: Row
    point_size: int = 0

    def context(self, records: Records, kernel: Kernel | None, ledger: Ledger, noise: NoiseSource) -> VaultContext:
        """See Terms.context."""
        budget = ledger.budget
        check_unit(self.learner, budget)
        mechanism = sum_mechanism(budget, clip=self.clip, size=self.size, releases=self.releases)
        statement = gradient_guarantee(budget, mechanism, self.clip)
        what = f"sums of one vector per record, clipped at {self.clip:g}, of another package's learner"
        lifetime: dict[Event, int] = {}
        if isinstance(mechanism, DiscreteGaussian):
            lifetime = {mechanism.event: self.releases}
            statement = replace(
                statement,
                mechanism=(
                    f"exact discrete Gaussian on the grid 2^{mechanism.exponent}, "
                    f"σ = {mechanism.sigma * mechanism.step:.6g}, on {what}"
                ),
                reason="docs/how-to/own-learner.md#the-private-half; docs/decisions/0003-discrete-gaussian.md",
            )
        else:
            statement = replace(statement, mechanism=f"none: exact {what}")
        program = RowSum(self.kind, self.releases, self.point_size, mechanism, self.row)
        return VaultContext(unit_records(records, "record"), program, ledger, noise, statement, lifetime)


@dataclass(frozen=True, slots=True)
class OutsideTerms:
    """Terms whose computation on records is in another package, so that only its author has tested its bound.

    Attributes:
        terms: the package's terms.
        unproved: why no ε is proved.
    """

    terms: Terms
    unproved: str

    @property
    def learner(self) -> str:
        """See Terms.learner."""
        return self.terms.learner

    def context(self, records: Records, kernel: Kernel | None, ledger: Ledger, noise: NoiseSource) -> VaultContext:
        """See Terms.context."""
        context = self.terms.context(records, kernel, ledger, noise)
        return replace(context, statement=context.statement.without_proof(self.unproved))
