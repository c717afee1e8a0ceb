"""Subject for the mechanism `k-norm` and the learner `gradient-walk`: one-vs-all gradient sums under a pure ε."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sottovoce.data import Records
from sottovoce.errors import InternalError
from sottovoce.kernels.linear import copies, targets
from sottovoce.privacy.api import Query
from sottovoce.privacy.terms import build
from sottovoce.privacy.vault import Budget, Ledger, OperatingSystemNoise, Vault
from sottovoce_papers.hegedus_2017.gradient_walk.private.terms import WalkTerms

from sottovoce_lab.auditor.laws import MaxNormLaw
from sottovoce_lab.auditor.subject import AUDITED, ObservedRun, Observer
from sottovoce_lab.auditor.targets.vault_observer import ask_vault

Floats = NDArray[np.float64]
FEATURES = 256
CLASSES = 3
_NEAR = 0.9  # threshold as a fraction of ε, because events with the largest likelihood ratio shift the odds most


@dataclass(frozen=True, slots=True)
class VisitSums:
    """A subject whose canaries are records along separate features: x in the first world and -x in the second.

    All gradients are taken at the zero model.

    Attributes:
        law_name: `joint` for joint noise over a feature's copies, or `copies` for the paper's ε/c per copy.
        budget: the device's budget.
        observer: recovers the releases from the messages; None to query the vault directly.
        features: the number of features d.
    """

    law_name: Literal["joint", "copies"]
    budget: Budget
    observer: Observer | None = None
    features: int = FEATURES

    @property
    def observation(self) -> str:
        """The kind of observation, `release` or `wire`; see Subject.observation."""
        return "release" if self.observer is None else "wire"

    @property
    def public_parameters(self) -> dict[str, Any]:
        """The public parameters; see Subject.public_parameters."""
        return {"releases": 1, "law": self.law_name}

    @property
    def delta(self) -> float:
        """The δ of the claim; see Subject.delta."""
        return 0.0

    @property
    def shape(self) -> None:
        """None, because a pure ε claim needs no shape; see Subject.shape."""

    @property
    def threshold(self) -> float:
        """The score above which the observer answers "first"; see Subject.threshold."""
        return _NEAR * (self.budget.epsilon or 0.0)

    @property
    def hit_probability(self) -> float:
        """The probability of a score above the threshold in the first world; see Subject.hit_probability."""
        return self.law.hit_probability ** (1 if self.law_name == "joint" else copies(CLASSES))

    @property
    def default_trials(self) -> int:
        """The default number of canaries; see Subject.default_trials."""
        return 8192

    @property
    def canaries(self) -> int:
        """The number of canaries per device; see Subject.canaries."""
        return self.features

    @property
    def grid(self) -> float | None:
        """None, because the vault chooses the grid step and other subjects check the low bits; see Subject.grid."""
        return None

    @property
    def law(self) -> MaxNormLaw:
        """The stated law, with scale 2/ε jointly over a feature's copies, or 2c/ε for each copy."""
        if self.budget.epsilon is None:
            raise InternalError("the audit has no noise scale for a noise-free visit: this is a bug; please report it")
        c = copies(CLASSES)
        return (
            MaxNormLaw(2 / self.budget.epsilon, c)
            if self.law_name == "joint"
            else MaxNormLaw(2 * c / self.budget.epsilon)
        )

    def scalar_variant(self) -> "VisitSums":
        """Return a subject whose records are single numbers; see Subject.scalar_variant."""
        return replace(self, features=1, observer=None)

    def vault(self, records: Records, ledger: Ledger) -> Vault:
        """Return a vault over the records; see Subject.vault."""
        if self.budget.epsilon is None:
            raise InternalError("the audit was given noise-free visits: this is a bug; please report it")
        terms = WalkTerms(AUDITED, "pegasos", self.features, CLASSES, (self.budget.epsilon,), self.law_name, "declared")
        return build(records=records, kernel=None, terms=terms, ledger=ledger, noise=OperatingSystemNoise())

    def observe(self, vault: Vault, count: int) -> ObservedRun:
        """Return the observer's view, without each answer's last number, the public record count; see Subject."""
        if self.observer:
            return self.observer(vault, count)
        observed_run = ask_vault(vault, [self._query(0)])
        return replace(observed_run, values=observed_run.values[:, :-1])

    def queries(self, records: Records) -> tuple[list[Query], Query]:
        """Return the paid queries and one beyond the budget; see Subject.queries."""
        return [self._query(0)], self._query(1)

    def worlds(self) -> Mapping[str, Records]:
        """Return the data sets; see Subject.worlds."""
        lengths = {
            "zero": [0.0],
            "length 1": [1.0],
            "a tenth longer": [1.1],
            "huge": [1e9],
            "huge, many": [1e9] * 100,
            "huge among zeros": [1e9] + [0.0] * 99,
        }
        return {
            name: self._records(np.array(rows)[:, np.newaxis] * np.eye(1, self.features))
            for name, rows in lengths.items()
        }

    def p_values(self, records: Records, observed_run: ObservedRun) -> dict[str, float]:
        """Return p-values for the stated law; see Subject.p_values."""
        return self.law.p_values(observed_run.values, self._parts(records).sum(axis=0).reshape(1, -1))

    def canary_records(self, coins: NDArray[np.bool_]) -> Records:
        """Return the records for the given coins; see Subject.canary_records."""
        return self._records(np.where(coins, 1.0, -1.0)[:, np.newaxis] * np.eye(self.features))

    def scores(self, observed_run: ObservedRun) -> Floats:
        """Return one score per feature, computed jointly from all its copies; see Subject.scores."""
        values = observed_run.values.reshape(-1, self.features).T
        sides = np.broadcast_to(targets(np.array([0]), CLASSES), values.shape)
        return self.law.score(values, sides, -sides)

    def _records(self, features: Floats) -> Records:
        return Records(features, np.zeros(len(features), dtype=np.int64))

    def _parts(self, records: Records) -> Floats:
        """Return each record's summand at the zero model, y⁽ᵏ⁾x scaled to L1 length 1, float64[n, c, d].

        At the zero model, all slopes are 1.
        """
        signs = np.sign(records.features)
        parts: Floats = targets(records.labels, CLASSES)[:, :, np.newaxis] * signs[:, np.newaxis]
        return parts

    def _query(self, slot: int) -> Query:
        return Query(AUDITED, "gradient", slot, np.zeros(copies(CLASSES) * self.features))
