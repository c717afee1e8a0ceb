"""Every record once, in noise: golf."""

import math
from dataclasses import dataclass

from sottovoce.data import Records
from sottovoce.errors import DataError, PrivacyError
from sottovoce.kernels import Kernel
from sottovoce.perturbation import Scheme
from sottovoce.vault.budget import Budget
from sottovoce.vault.guarantee import Scaling, record_guarantee
from sottovoce.vault.ledger import Ledger
from sottovoce.vault.noise import NoiseSource
from sottovoce.vault.programs import RecordRelease
from sottovoce.vault.record_mechanism import RecordMechanism
from sottovoce.vault.rooms.terms import check_unit, unit_records
from sottovoce.vault.vault import Room


@dataclass(frozen=True, slots=True)
class RecordTerms:
    """What a learner of published records asks of its vault, all of it public.

    Attributes:
        learner: its name.
        scheme: how each record is released, once; of no noise (`exact`) where the budget promises nothing.
        scaling: how features were scaled before they reached the vault. By the training set's own ranges no ε holds:
            the budget must promise none, and every release is charged as infinite.
    """

    learner: str
    scheme: Scheme
    scaling: Scaling

    def room(self, records: Records, kernel: Kernel | None, ledger: Ledger, noise: NoiseSource) -> Room:
        """See Terms.room."""
        scheme = self.scheme
        check_unit(self.learner, ledger.budget)
        _check_promise(self, ledger.budget)
        if records.features.shape[1] != scheme.features or (records.labels >= scheme.classes).any():
            raise DataError(
                f"the records are not of the {scheme.features} features and {scheme.classes} classes that learner "
                f"`{self.learner}` publishes: correct data.features, data.classes or data.transform"
            )
        epsilon = math.inf if scheme.epsilon is None or ledger.budget.epsilon is None else scheme.epsilon
        program = RecordRelease(RecordMechanism(scheme), len(records), epsilon)
        statement = record_guarantee(ledger.budget, scheme, self.scaling)
        return Room(unit_records(records, "record"), program, ledger, noise, statement)


def _check_promise(terms: RecordTerms, budget: Budget) -> None:
    scheme = terms.scheme
    if terms.scaling == "training-min-max":
        if budget.epsilon is not None:
            raise PrivacyError(
                "ranges computed from the training set are a release that nobody pays for, so no ε holds and none may "
                "be promised: declare the ranges of the features"
            )
        return
    if (scheme.epsilon is None) != (budget.epsilon is None):
        raise PrivacyError(
            f"learner `{terms.learner}` with scheme `{scheme.name}` does not fit this budget: releases without noise "
            "go with `--epsilon inf` in the testbed, all others with an ε"
        )
    if scheme.epsilon is None or budget.epsilon is None:
        return
    if budget.neighbouring != "replace-one":
        raise PrivacyError(
            f"learner `{terms.learner}` publishes record by record, which shows how many there are, so no ε holds "
            f"under {budget.neighbouring}: set privacy.neighbouring=replace-one, where the number is public"
        )
    if scheme.epsilon > budget.epsilon:
        raise PrivacyError(
            f"one release of a record costs ε = {scheme.epsilon:g} and the budget is {budget.epsilon:g}: "
            "make the scheme for the budget's ε"
        )
