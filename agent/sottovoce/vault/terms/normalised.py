"""Terms for gradient sums in units of a moving clipping threshold, which follows a public rule or past releases."""

from dataclasses import dataclass, replace

from sottovoce.data import Records
from sottovoce.errors import InternalError
from sottovoce.kernels import Kernel
from sottovoce.kernels.decentralised.clipping import Rule, row_length
from sottovoce.vault.guarantee import gradient_guarantee
from sottovoce.vault.ledger import Ledger
from sottovoce.vault.noise import NoiseSource
from sottovoce.vault.programs.normalised_sum import NormalisedSum
from sottovoce.vault.terms.base import unit_records
from sottovoce.vault.terms.gradients import GradientTerms, kernel_clips_and_sums
from sottovoce.vault.vault import VaultContext

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
            raise InternalError("a vault of gradient sums needs a kernel: this is a bug; please report it")
        budget, sums = ledger.budget, self.sums
        by_kernel = self.rule == "decay" and kernel_clips_and_sums(kernel, budget, records)
        mechanism, program = sums.program(kernel, budget, row_length(self.rule, kernel.size), is_presummed=by_kernel)
        statement = gradient_guarantee(budget, mechanism, sums.clip, sums.sampling)
        described = replace(statement, mechanism=f"{statement.mechanism}, {_RULES[self.rule]}")
        lifetime = sums.lifetime(program, budget)
        own_records = unit_records(records, budget.unit)
        return VaultContext(own_records, NormalisedSum(program, self.rule), ledger, noise, described, lifetime)
