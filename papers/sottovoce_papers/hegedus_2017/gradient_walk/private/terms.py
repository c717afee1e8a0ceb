"""Terms for gradient-walk: gradients for each visit of a model on a random walk."""

import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from sottovoce.plugin import (
    REFUTED,
    SLOPES,
    THREAT_MODEL,
    Budget,
    DataError,
    Kernel,
    Ledger,
    NoiseSource,
    PrivacyError,
    PrivacyStatement,
    PureSum,
    Records,
    Scaling,
    Status,
    VaultContext,
    calibrate_pure_sum,
    check_unit,
    copy_count,
    no_guarantee,
    unit_records,
)

from sottovoce_papers.hegedus_2017.gradient_walk.private.program import VisitGradient


@dataclass(frozen=True, slots=True)
class WalkTerms:
    """Public terms for a learner whose model walks from device to device.

    Attributes:
        learner: the learner's name.
        model: `pegasos` or `logistic`, the model whose loss is differentiated.
        features: d, number of features in a transformed record.
        classes: c ≥ 2, number of classes.
        epsilons: ε of each visit to this device, in order; infinite for no noise.
        law: law of the noise: `joint` over the copies, or `copies` with the paper's ε/c for each; see pure_sum.py.
        scaling: see RecordTerms.
    """

    learner: str
    model: str
    features: int
    classes: int
    epsilons: tuple[float, ...]
    law: Literal["joint", "copies"]
    scaling: Scaling

    @property
    def epsilon(self) -> float:
        """ε of all visits together, rounded to the nearest float."""
        return math.fsum(self.epsilons)

    def context(self, records: Records, kernel: Kernel | None, ledger: Ledger, noise: NoiseSource) -> VaultContext:
        """See Terms.context; the vault answers at most one query per visit."""
        budget = ledger.budget
        check_unit(self.learner, budget)
        _check_promise(self, budget)
        if records.features.shape[1] != self.features or (records.labels >= self.classes).any():
            raise DataError(
                f"the records do not match the {self.features} features and {self.classes} classes of learner "
                f"`{self.learner}`: correct data.features, data.classes or data.transform"
            )
        charged = {epsilon: math.inf if budget.epsilon is None else epsilon for epsilon in self.epsilons}
        mechanisms = {
            epsilon: calibrate_pure_sum(
                copies=copy_count(self.classes),
                features=self.features,
                law=self.law,
                epsilon=epsilon,
                charged_epsilon=charge,
            )
            for epsilon, charge in charged.items()
        }
        visits = tuple(mechanisms[epsilon] for epsilon in self.epsilons)
        program = VisitGradient(SLOPES[self.model], self.classes, visits, len(records))
        return VaultContext(
            unit_records(records, "record"),
            program,
            ledger,
            noise,
            walk_guarantee(budget, visits, self.epsilon, self.scaling),
            Counter(visit.event for visit in visits) if budget.epsilon is not None else {},
        )


def _check_promise(terms: WalkTerms, budget: Budget) -> None:
    if terms.scaling == "training-min-max":
        if budget.epsilon is not None:
            raise PrivacyError(
                "computing ranges from the training set leaks information that the budget does not cover, so no ε can "
                "be guaranteed; declare the feature ranges"
            )
        return
    if math.isinf(terms.epsilon) != (budget.epsilon is None):
        raise PrivacyError(
            f"learner `{terms.learner}` does not fit this budget: noise-free visits require `--epsilon inf` in "
            "the testbed, and all others require an ε"
        )
    if budget.epsilon is None:
        return
    if budget.neighbouring != "replace-one":
        raise PrivacyError(
            f"learner `{terms.learner}` takes the mean over its records, which reveals the number of records, so "
            f"no ε holds under {budget.neighbouring}: set privacy.neighbouring=replace-one, under which the number is "
            "public"
        )
    if sum(map(Fraction, terms.epsilons)) > Fraction(budget.epsilon):
        raise PrivacyError(
            f"all visits together cost ε = {terms.epsilon:g}, but the budget is {budget.epsilon:g}: split the "
            "budget's ε among the visits"
        )


_WALK_LAWS = {
    "joint": "exact discrete noise of the K-norm mechanism, one law for the copies of a feature,",
    "copies": "exact discrete Laplace on each one-vs-all copy, at ε/copies,",
}


def walk_guarantee(budget: Budget, visits: tuple[PureSum, ...], epsilon: float, scaling: Scaling) -> PrivacyStatement:
    """Return the guarantee for all visits, which together cost `epsilon`, or, if that is refuted, the refuted claim."""
    if math.isinf(epsilon):
        return no_guarantee(budget, "exact gradient sums")
    refuted, extent = scaling == "training-min-max", f"{len(visits)} visits" if len(visits) > 1 else "one visit"
    return PrivacyStatement(
        unit=budget.unit,
        neighbouring=budget.neighbouring,
        mechanism=(
            f"{_WALK_LAWS[visits[0].law]} on sums of loss gradients for records of L1 norm 1; pure, "
            f"ε = {epsilon:g} over {extent}"
        ),
        composition="sequential over the visits to a device, the number of which is public: ε adds up, fully adaptive",
        epsilon=epsilon if refuted else budget.epsilon,
        delta=budget.delta,
        threat_model=THREAT_MODEL + "; the number of records is public",
        status=Status.REFUTED if refuted else Status.PROVED,
        reason=REFUTED if refuted else "docs/explanation/golf.md#the-gradient-walk-for-comparison",
    )
