"""Subject for the mechanism `adad2p`, AdaD²P's release, whose published claim does not hold."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sottovoce.data import Records
from sottovoce.kernels.softmax import Softmax
from sottovoce.privacy.accounting.gaussian import gaussian_mu
from sottovoce.privacy.api import Query
from sottovoce.privacy.terms import build
from sottovoce.privacy.vault import Budget, Ledger, OperatingSystemNoise, Vault

from sottovoce_lab.auditor.laws import GaussianLaw
from sottovoce_lab.auditor.subject import AUDITED, ObservedRun
from sottovoce_lab.auditor.targets.vault_observer import ask_vault
from sottovoce_lab.published.terms import Claim, PublishedTerms

Floats = NDArray[np.float64]
_FEATURES = 2048
_KERNEL = Softmax(_FEATURES, 2)
_RATIO = 1.1


@dataclass(frozen=True, slots=True)
class ScaledNoiseSums:
    """A subject with one canary per device: a record whose gradient length is 1.1 in the first world, 1 in the second.

    The tested law is the one implied by the published (ε, δ): Gaussian noise whose scale is the same for all records.

    Attributes:
        epsilon: the published ε.
        delta: the published δ.
    """

    epsilon: float
    delta: float
    kernel: Softmax = _KERNEL
    observation: str = "release"
    canaries: int = 1
    default_trials: int = 500
    threshold: float = math.log(_RATIO) / 2
    hit_probability: float = 1.0
    grid: None = None
    shape: None = None  # the mechanism lacks the properties that it claims

    @property
    def public_parameters(self) -> dict[str, Any]:
        """The public parameters; see Subject.public_parameters."""
        return {"releases": 1}

    @property
    def budget(self) -> Budget:
        """A budget without ε, because the charge for the release is infinite; see Subject.budget."""
        return Budget(None, self.delta, "record", "replace-one")

    @property
    def sigma(self) -> float:
        """σ per unit of sensitivity ‖g‖, as stated in the paper."""
        return 1 / gaussian_mu(self.epsilon, self.delta)

    def scalar_variant(self) -> None:
        """Return None, because it takes many coordinates to refute the noise law; see Subject.scalar_variant."""

    def vault(self, records: Records, ledger: Ledger) -> Vault:
        """Return a vault over the records; see Subject.vault."""
        claim = Claim(
            mechanism=f"discrete Gaussian of scale {self.sigma:g} ‖g‖ on the gradient g",
            composition="one release",
            epsilon=self.epsilon,
            delta=self.delta,
            is_refuted=True,
            reason="the noise's scale is a function of the record",
        )
        terms = PublishedTerms(AUDITED, claim, None, 1, None, "example", self.sigma, has_relative_noise=True)
        return build(records=records, kernel=self.kernel, terms=terms, ledger=ledger, noise=OperatingSystemNoise())

    def observe(self, vault: Vault, count: int) -> ObservedRun:
        """Return the observer's view of a run; see Subject.observe."""
        return ask_vault(vault, [self._query(0)])

    def queries(self, records: Records) -> tuple[list[Query], Query]:
        """Return the paid query and one of a kind that this vault without an ε limit never answers; see Subject."""
        return [self._query(0)], replace(self._query(1), kind="record")

    def worlds(self) -> Mapping[str, Records]:
        """Return the data sets; see Subject.worlds."""
        return {"length 1": self._record(1.0), "a tenth longer": self._record(_RATIO), "zero": self._record(0.0)}

    def p_values(self, records: Records, observed_run: ObservedRun) -> dict[str, float]:
        """Return p-values for the stated law; see Subject.p_values."""
        point = np.zeros((1, self.kernel.size))
        exact = self.kernel.gradients(point, records.features[np.newaxis], records.labels[np.newaxis])[0]
        return GaussianLaw(self.sigma).p_values(observed_run.values, exact)

    def canary_records(self, coins: NDArray[np.bool_]) -> Records:
        """Return the records for the given coins; see Subject.canary_records."""
        return self._record(_RATIO if coins[0] else 1.0)

    def scores(self, observed_run: ObservedRun) -> Floats:
        """Return the log of the gradient's length, estimated from the release's length; see Subject.scores."""
        length = np.sqrt((observed_run.values**2).sum(axis=1) / (1 + self.sigma**2 * self.kernel.size))
        scores: Floats = np.log(length)
        return scores

    def _record(self, length: float) -> Records:
        """Return a record with equal features whose gradient has this length at the zero model.

        With two classes, the gradient's length is the record's length divided by √2.
        """
        features = np.full((1, _FEATURES), length * math.sqrt(2 / _FEATURES))
        return Records(features, np.zeros(1, dtype=np.int64))

    def _query(self, slot: int) -> Query:
        return Query(AUDITED, "gradient", slot, np.zeros(self.kernel.size))
