"""Sums of gradients in units of a clipping threshold that moves: by a public rule, or after earlier releases."""

from dataclasses import dataclass, replace

from sottovoce.data import Records
from sottovoce.errors import InternalError
from sottovoce.kernels import Kernel
from sottovoce.kernels.decentralised.normalisation import Rule, numbers
from sottovoce.vault.guarantee import guarantee
from sottovoce.vault.ledger import Ledger
from sottovoce.vault.noise import NoiseSource
from sottovoce.vault.programs.normalised import NormalisedSum
from sottovoce.vault.rooms.gradients import GradientTerms, summed
from sottovoce.vault.rooms.terms import unit_records
from sottovoce.vault.vault import Room

_RULES: dict[Rule, str] = {
    "decay": "in units of a threshold that falls by a public rule",
    "quantile": "in units of a threshold that follows earlier releases, each with a noised bit a record beside it",
    "automatic": "of gradients divided by their own length",
}


@dataclass(frozen=True, slots=True)
class NormalisedTerms:
    """Terms of a learner with a moving threshold, all public.

    Attributes:
        sums: releases, batches and windows; its clip is 1, in units of the threshold.
        rule: what becomes of a gradient.
    """

    sums: GradientTerms
    rule: Rule

    @property
    def learner(self) -> str:
        """See Terms.learner."""
        return self.sums.learner

    def room(self, records: Records, kernel: Kernel | None, ledger: Ledger, noise: NoiseSource) -> Room:
        """See Terms.room."""
        if kernel is None:
            raise InternalError("a vault of gradient sums needs a kernel: report this defect")
        budget, sums = ledger.budget, self.sums
        by_kernel = self.rule == "decay" and summed(kernel, budget, records)
        mechanism, program = sums.program(kernel, budget, numbers(self.rule, kernel.size), summed=by_kernel)
        statement = guarantee(budget, mechanism, sums.clip, sums.sampling)
        worded = replace(statement, mechanism=f"{statement.mechanism}, {_RULES[self.rule]}")
        lifetime = sums.lifetime(program, budget)
        held = unit_records(records, budget.unit)
        return Room(held, NormalisedSum(program, self.rule), ledger, noise, worded, lifetime)
