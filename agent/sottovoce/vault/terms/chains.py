"""Chains of steps without replacement, at a public period (Jin, He & Dai 2023)."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from sottovoce.accounting.events import Event
from sottovoce.accounting.units import EVERY
from sottovoce.data import Records
from sottovoce.door import PrivacyStatement, Status
from sottovoce.errors import DataError, InternalError, PrivacyError
from sottovoce.kernels import Kernel
from sottovoce.vault.bounded_point import BoundedPoint, calibrate_point
from sottovoce.vault.budget import Budget
from sottovoce.vault.guarantee import THREAT_MODEL, no_guarantee
from sottovoce.vault.ledger import Ledger
from sottovoce.vault.lemmas import chain_sensitivity, rounding_distance, smoothness_of
from sottovoce.vault.noise import NoiseSource
from sottovoce.vault.numbering import enrolled
from sottovoce.vault.programs.chain import Chain
from sottovoce.vault.programs.chain_steps import ChainSteps, StepSizes
from sottovoce.vault.terms.base import check_unit, unit_records
from sottovoce.vault.terms.published import Claim
from sottovoce.vault.unproved_point import UnprovedPoint
from sottovoce.vault.vault import VaultContext


@dataclass(frozen=True, slots=True)
class ChainTerms:
    """Terms of a learner of chains without replacement, all public.

    Attributes:
        learner: name of the learner.
        step_size: η; with a regulariser the largest step size, that of min(η, 1/(aγt)).
        batch: b, records in a step.
        period: R, steps in a chain, of which the last is released.
        passes: number of passes over the records.
        regularisation: λ = γ; if it is above 0, models are projected onto the ball of `radius`.
        slope: a.
        radius: radius of that ball; no weight in it is too large to start from.
    """

    learner: str
    step_size: float
    batch: int
    period: int
    passes: int
    regularisation: float = 0.0
    slope: float = 0.5
    radius: float = 2.0**11

    def context(self, records: Records, kernel: Kernel | None, ledger: Ledger, noise: NoiseSource) -> VaultContext:
        """See Terms.context. If no ε is set, no lemma is needed and none is checked."""
        if kernel is None:
            raise InternalError("a vault of chains needs a kernel: report this defect")
        budget = ledger.budget
        check_unit(self.learner, budget)
        mechanism = self._mechanism(budget, kernel, records.features.shape[1])
        sizes = StepSizes(self.step_size, self.slope, self.regularisation)
        steps = ChainSteps(kernel, sizes, self.batch, self.radius if self.regularisation else None)
        held = enrolled(
            unit_records(records, "record"), ledger, chain_count_check(self.learner, self.batch, self.period)
        )
        program = Chain(steps, (mechanism,), self.period, self.passes, len(held))
        lifetime: dict[Event, int] = (
            {mechanism.event(EVERY): self.passes} if isinstance(mechanism, BoundedPoint) else {}
        )
        return VaultContext(held, program, ledger, noise, chain_guarantee(budget, mechanism, self.passes), lifetime)

    def _mechanism(self, budget: Budget, kernel: Kernel, features: int) -> BoundedPoint | UnprovedPoint:
        if budget.epsilon is None:
            return UnprovedPoint(kernel.size, 0.0, "none")
        loss = smoothness_of(kernel)
        distance = chain_sensitivity(
            loss.regularised(self.regularisation),
            step_size=self.step_size,
            batch=self.batch,
            steps=self.period,
            neighbouring=budget.neighbouring,
        )
        strays = rounding_distance(
            features=features,
            classes=kernel.size // features,
            step_size=self.step_size,
            batch=self.batch,
            steps=self.period,
            loss=loss,
            regularised=self.regularisation > 0,
        )
        return calibrate_point(
            distance=distance + strays,
            size=kernel.size,
            releases=self.passes,
            epsilon=budget.epsilon,
            delta=budget.delta,
        )


@dataclass(frozen=True, slots=True)
class PublishedChainTerms:
    """Terms of chains exactly as in the paper: the paper's noise, charged as infinite.

    Attributes:
        learner: name of the learner.
        claim: claim of the paper.
        sizes: step sizes, as printed; no model is projected.
        batch: b.
        period: R; 1 for DP-Fully collaborative.
        passes: number of passes over the records.
        multiplier: s / Δ₂, Δ₂ = max 2ηL/b over a chain; 0 for no noise.
        lipschitz: L.
    """

    learner: str
    claim: Claim
    sizes: StepSizes
    batch: int
    period: int
    passes: int
    multiplier: float
    lipschitz: float

    def context(self, records: Records, kernel: Kernel | None, ledger: Ledger, noise: NoiseSource) -> VaultContext:
        """See Terms.context."""
        if kernel is None:
            raise InternalError("a vault of chains needs a kernel: report this defect")
        refuse_promise(self.learner, ledger.budget)
        steps = ChainSteps(kernel, self.sizes, self.batch)
        held = enrolled(
            unit_records(records, "record"), ledger, chain_count_check(self.learner, self.batch, self.period)
        )
        slots = max(1, self.passes * (len(held) // (self.batch * self.period)))
        mechanisms = tuple(
            UnprovedPoint(kernel.size, self.deviation(slot * self.period + 1), self.learner) for slot in range(slots)
        )
        program = Chain(steps, mechanisms, self.period, self.passes, len(held))
        return VaultContext(held, program, ledger, noise, self.claim.statement(ledger.budget, self.multiplier > 0))

    def deviation(self, first: int) -> float:
        """Return the noise scale s of a chain whose first, largest step is the device's `first`-th, from 1."""
        return self.multiplier * 2 * self.sizes.schedule(first) * self.lipschitz / self.batch


def refuse_promise(learner: str, budget: Budget) -> None:
    """Refuse to promise an ε for a chain to the letter.

    Raises:
        PrivacyError: if the budget has one.
    """
    if budget.epsilon is not None:
        raise PrivacyError(
            f"learner `{learner}` with fidelity = paper has no proved ε and can promise none: use fidelity = sound"
        )


def chain_count_check(learner: str, batch: int, period: int) -> Callable[[int], None]:
    """Return a check that a number of records makes at least one chain; having no records at all is allowed.

    Returns:
        a function that raises DataError if they do not.
    """

    def check(count: int) -> None:
        if 0 < count < batch * period:
            raise DataError(
                f"learner `{learner}`: {count} records are too few for a chain of {period} batches of {batch}: use "
                "smaller batches or a shorter period"
            )

    return check


def chain_guarantee(budget: Budget, mechanism: BoundedPoint | UnprovedPoint, passes: int) -> PrivacyStatement:
    """Return the guarantee of all chains of steps without replacement, over every pass."""
    if not isinstance(mechanism, BoundedPoint):
        return no_guarantee(budget, "the exact ends of chains of steps")
    over = "one pass" if passes == 1 else f"{passes} passes"
    return PrivacyStatement(
        unit=budget.unit,
        neighbouring=budget.neighbouring,
        mechanism=(
            f"exact discrete Gaussian on the grid 2^{mechanism.exponent}, "
            f"σ = {math.ldexp(mechanism.sigma, mechanism.exponent):.6g}, on the end of a chain of steps"
        ),
        composition=f"a record is in one release per pass, {over}; Gaussian closed form, a pass in parallel",
        epsilon=budget.epsilon,
        delta=budget.delta,
        threat_model=THREAT_MODEL + "; how many records there are is public",
        status=Status.PROVED,
        reason="docs/decisions/0016-chains.md (Jin, He & Dai 2023, Lemma 4, at a public period)",
    )
