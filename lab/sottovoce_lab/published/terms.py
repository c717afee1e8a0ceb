"""Terms for following a paper exactly: gradients with the printed noise, at an infinite charge."""

from dataclasses import dataclass
from typing import Literal

from sottovoce.data import Records
from sottovoce.errors import InternalError, PrivacyError
from sottovoce.kernels import Kernel
from sottovoce.privacy.api import PrivacyStatement, Status
from sottovoce.privacy.mechanisms.noise import NoiseSource
from sottovoce.privacy.mechanisms.sampling import Sampling
from sottovoce.privacy.terms.base import unit_records
from sottovoce.privacy.vault import Budget, Ledger
from sottovoce.privacy.vault.vault import VaultContext

from sottovoce_lab.published.batch_gradient import PublishedSum
from sottovoce_lab.published.gaussian import PublishedGaussian


@dataclass(frozen=True, slots=True)
class Claim:
    """A paper's claim about its noise, and the verdict on the claim.

    Attributes:
        mechanism: description of the mechanism.
        composition: the rule by which the paper composes its releases.
        epsilon: ε as printed; None if the paper does not state one.
        delta: δ as printed.
        is_refuted: whether a counterexample is known; otherwise, the claim is unproved.
        reason: reason for the verdict, including the figures that support it.
    """

    mechanism: str
    composition: str
    epsilon: float | None
    delta: float
    is_refuted: bool
    reason: str

    def statement(self, budget: Budget, noisy: bool) -> PrivacyStatement:
        """Return the privacy statement for such releases, either with noise or as the noise-free baseline."""
        status = Status.REFUTED if self.is_refuted else Status.AS_PUBLISHED
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
    """Public terms for a learner that follows its paper exactly.

    Attributes:
        learner: the learner's name.
        claim: the paper's claim.
        sampling: how a batch is sampled; None for all records.
        batch: B, number of records in a batch.
        clip: L2 clip norm; None for no clipping.
        clip_target: `example` to clip each example's gradient; `batch` to clip the batch mean once.
        sigma: standard deviation of the noise on each entry of the mean gradient, or of that noise divided by the
            gradient's norm; 0 for no noise.
        has_relative_noise: whether `sigma` is relative to the gradient's norm.
    """

    learner: str
    claim: Claim
    sampling: Sampling | None
    batch: int
    clip: float | None
    clip_target: Literal["example", "batch"]
    sigma: float
    has_relative_noise: bool = False

    def context(self, records: Records, kernel: Kernel | None, ledger: Ledger, noise: NoiseSource) -> VaultContext:
        """See Terms.context."""
        if kernel is None:
            raise InternalError("the gradient vault was built without a kernel: this is a bug; please report it")
        budget = ledger.budget
        check_no_promise(self.learner, budget)
        mechanism = PublishedGaussian(
            kernel.size, self.batch, self.clip, self.clip_target, self.sigma, self.has_relative_noise
        )
        program = PublishedSum(kernel, mechanism, self.learner, self.sampling)
        return VaultContext(
            unit_records(records, "record"), program, ledger, noise, self.claim.statement(budget, self.sigma > 0)
        )


def check_no_promise(learner: str, budget: Budget) -> None:
    """Check that the budget does not promise an ε, because a variant exactly as in its paper has none.

    Raises:
        PrivacyError: if the budget promises an ε.
    """
    if budget.epsilon is not None:
        raise PrivacyError(
            f"learner `{learner}` with fidelity = paper does not have a proved ε, so it cannot promise one; use "
            "fidelity = sound"
        )
