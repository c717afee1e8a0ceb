"""Gradients with a paper's printed noise, for following it to the letter at an infinite charge."""

from dataclasses import dataclass
from typing import Literal

from sottovoce.data import Records
from sottovoce.door import PrivacyStatement, Status
from sottovoce.errors import InternalError, PrivacyError
from sottovoce.kernels import Kernel
from sottovoce.vault.as_published import PublishedGaussian
from sottovoce.vault.budget import Budget
from sottovoce.vault.ledger import Ledger
from sottovoce.vault.noise import NoiseSource
from sottovoce.vault.programs.published import PublishedSum
from sottovoce.vault.sampling import Sampling
from sottovoce.vault.terms.base import unit_records
from sottovoce.vault.vault import VaultContext


@dataclass(frozen=True, slots=True)
class Claim:
    """Claim of a paper about its noise, and the verdict on it.

    Attributes:
        mechanism: the mechanism, in words.
        composition: the rule by which the paper adds up its releases.
        epsilon: ε as printed; None if the paper prints none.
        delta: δ as printed.
        refuted: whether a counter-example is known; otherwise the claim is unproved.
        reason: reason for the verdict, with the figures behind it.
    """

    mechanism: str
    composition: str
    epsilon: float | None
    delta: float
    refuted: bool
    reason: str

    def statement(self, budget: Budget, noisy: bool) -> PrivacyStatement:
        """Return the statement about such releases, with noise or, as a baseline, without."""
        status = Status.REFUTED if self.refuted else Status.AS_PUBLISHED
        return PrivacyStatement(
            unit="record",
            neighbouring=budget.neighbouring,
            mechanism=self.mechanism,
            composition=self.composition,
            epsilon=self.epsilon if noisy else None,
            delta=self.delta if noisy else None,
            threat_model="local: anyone who reads every message of a device",
            status=status if noisy else Status.NONE,
            reason=self.reason if noisy else "the noiseless baseline: every message may reveal records",
        )


@dataclass(frozen=True, slots=True)
class PublishedTerms:
    """Terms of a learner to the letter.

    Attributes:
        learner: name of the learner.
        claim: the paper's claim.
        sampling: how a batch is drawn; None for all records.
        batch: B, records in a batch.
        clip: L2 threshold; None for none.
        clipped: what is clipped: each `example`'s gradient, or the mean of the `batch` once.
        sigma: standard deviation of the noise on each entry of the mean gradient, or of its ratio to the gradient's
            length; 0 for none.
        scaled: whether `sigma` is that ratio.
    """

    learner: str
    claim: Claim
    sampling: Sampling | None
    batch: int
    clip: float | None
    clipped: Literal["example", "batch"]
    sigma: float
    scaled: bool = False

    def context(self, records: Records, kernel: Kernel | None, ledger: Ledger, noise: NoiseSource) -> VaultContext:
        """See Terms.context."""
        if kernel is None:
            raise InternalError("a vault of gradients needs a kernel: report this defect")
        budget = ledger.budget
        if budget.epsilon is not None:
            raise PrivacyError(
                f"learner `{self.learner}` with fidelity = paper has no proved ε and can promise none: use "
                "fidelity = sound"
            )
        mechanism = PublishedGaussian(kernel.size, self.batch, self.clip, self.clipped, self.sigma, self.scaled)
        program = PublishedSum(kernel, mechanism, self.learner, self.sampling)
        return VaultContext(
            unit_records(records, "record"), program, ledger, noise, self.claim.statement(budget, self.sigma > 0)
        )
