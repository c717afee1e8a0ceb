"""Terms for chains of steps without replacement, with a public period (Jin, He & Dai 2023)."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from sottovoce.plugin import (
    EVERY,
    THREAT_MODEL,
    BoundedPoint,
    Budget,
    DataError,
    InternalError,
    Kernel,
    Ledger,
    NoiseSource,
    PrivacyStatement,
    Records,
    Status,
    UnprovedPoint,
    VaultContext,
    calibrate_point,
    check_unit,
    enrol_records,
    no_guarantee,
    unit_records,
)

from sottovoce_papers.jin_2023.private.lemmas import chain_sensitivity, loss_constants, rounding_distance
from sottovoce_papers.jin_2023.private.program import Chain
from sottovoce_papers.jin_2023.private.steps import ChainSteps, StepSizes


@dataclass(frozen=True, slots=True)
class ChainTerms:
    """Public terms for a learner that uses chains without replacement.

    Attributes:
        learner: the learner's name.
        step_size: η, the step size; with a regulariser, the upper limit on the step sizes min(η, 1/(aγt)).
        batch: b, number of records in a step.
        period: R, number of steps in a chain; the result of the last one is released.
        passes: number of passes over the records.
        regularisation: λ = γ; if above 0, models are projected onto the ball with this `radius`.
        slope: a.
        radius: radius of that ball; a chain may start from any weights in it.
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
        """See Terms.context. If no ε is set, the lemma's conditions are not needed and not checked."""
        if kernel is None:
            raise InternalError("a vault for chains was created without a kernel: this is a bug; please report it")
        budget = ledger.budget
        check_unit(self.learner, budget)
        mechanism = self._mechanism(budget, kernel, records.features.shape[1])
        sizes = StepSizes(self.step_size, self.slope, self.regularisation)
        steps = ChainSteps(kernel, sizes, self.batch, self.radius if self.regularisation else None)
        enrolled = enrol_records(
            unit_records(records, "record"), ledger, chain_count_check(self.learner, self.batch, self.period)
        )
        program = Chain(steps, (mechanism,), self.period, self.passes, len(enrolled))
        return VaultContext(
            enrolled,
            program,
            ledger,
            noise,
            chain_guarantee(budget, mechanism, self.passes),
            {mechanism.event(EVERY): self.passes} if isinstance(mechanism, BoundedPoint) else {},
        )

    def _mechanism(self, budget: Budget, kernel: Kernel, features: int) -> BoundedPoint | UnprovedPoint:
        if budget.epsilon is None:
            return UnprovedPoint(kernel.size, 0.0, "none")
        loss = loss_constants(kernel)
        distance = chain_sensitivity(
            loss.with_regulariser(self.regularisation),
            step_size=self.step_size,
            batch=self.batch,
            steps=self.period,
            neighbouring=budget.neighbouring,
        )
        rounding = rounding_distance(
            features=features,
            classes=kernel.size // features,
            step_size=self.step_size,
            batch=self.batch,
            steps=self.period,
            loss=loss,
            is_regularised=self.regularisation > 0,
        )
        return calibrate_point(
            distance=distance + rounding,
            size=kernel.size,
            releases=self.passes,
            epsilon=budget.epsilon,
            delta=budget.delta,
        )


def chain_count_check(learner: str, batch: int, period: int) -> Callable[[int], None]:
    """Return a check that there are enough records for at least one chain; zero records are allowed.

    Returns:
        A function that raises DataError if there are too few records.
    """

    def check(count: int) -> None:
        if 0 < count < batch * period:
            raise DataError(
                f"learner `{learner}`: {count} records are too few for a chain of {period} batches of {batch}; "
                "use smaller batches or a shorter period"
            )

    return check


def chain_guarantee(budget: Budget, mechanism: BoundedPoint | UnprovedPoint, passes: int) -> PrivacyStatement:
    """Return the guarantee for all chains of steps without replacement, over all passes."""
    if not isinstance(mechanism, BoundedPoint):
        return no_guarantee(budget, "the exact results of chains of steps")
    extent = "one pass" if passes == 1 else f"{passes} passes"
    return PrivacyStatement(
        unit=budget.unit,
        neighbouring=budget.neighbouring,
        mechanism=(
            f"exact discrete Gaussian on the grid 2^{mechanism.exponent}, "
            f"σ = {math.ldexp(mechanism.sigma, mechanism.exponent):.6g}, on the result of a chain of steps"
        ),
        composition=f"each record is in one release per pass, {extent}; Gaussian closed form, parallel within a pass",
        epsilon=budget.epsilon,
        delta=budget.delta,
        threat_model=THREAT_MODEL + "; the number of records is public",
        status=Status.PROVED,
        reason="docs/decisions/0016-chains.md (Jin, He & Dai 2023, Lemma 4, at a public period)",
    )
