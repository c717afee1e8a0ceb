"""Subject for the mechanism `chain`, which releases the final models of chains of steps without replacement."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sottovoce.data import Records
from sottovoce.kernels.softmax import Softmax
from sottovoce.privacy.api import Query
from sottovoce.privacy.terms import build
from sottovoce.privacy.vault import Budget, Ledger, OperatingSystemNoise, Vault
from sottovoce_papers.jin_2023.private.terms import ChainTerms

from sottovoce_lab.auditor.laws import GaussianLaw, claimed_mu
from sottovoce_lab.auditor.shapes import Gaussians
from sottovoce_lab.auditor.subject import AUDITED, ObservedRun
from sottovoce_lab.auditor.targets.vault_observer import ask_vault

Floats = NDArray[np.float64]
_STEP_SIZE, _BATCH, _PERIOD = 0.5, 2, 2
_CHAINS = 64
_KERNEL = Softmax(4, 2)
_CERTAIN_WEIGHT = 40.0  # weight at which a softmax model is practically certain


@dataclass(frozen=True, slots=True)
class Chains:
    """A subject whose canaries are records, each in the last batch of its own chain.

    A canary is one of two records with orthogonal gradients. At the auditor's weights, the model is certain of the
    wrong label for both, so their gradients have the maximum length.

    Attributes:
        budget: the device's budget.
    """

    budget: Budget

    observation = "release"
    shape = Gaussians()
    threshold = 0.5
    hit_probability = 0.5
    default_trials = 2048
    canaries = _CHAINS
    grid = None  # the grid step is not a round number, because the lemma's distance is rounded up to the grid

    @property
    def public_parameters(self) -> dict[str, Any]:
        """The public parameters; see Subject.public_parameters."""
        return {"releases": _CHAINS, "batch": _BATCH, "batches": _PERIOD}

    @property
    def delta(self) -> float:
        """The budget's δ; see Subject.delta."""
        return self.budget.delta

    @property
    def sigma(self) -> float:
        """σ = 2ηL/b divided by μ, with L = √2 (Jin, He & Dai 2023, Lemma 4)."""
        distance = 2 * _STEP_SIZE * math.sqrt(2) / _BATCH
        return distance / claimed_mu(self.budget)

    def scalar_variant(self) -> None:
        """Return None, because a chain has at least two classes; see Subject.scalar_variant."""

    def vault(self, records: Records, ledger: Ledger) -> Vault:
        """Return a vault over the records; see Subject.vault."""
        terms = ChainTerms(AUDITED, _STEP_SIZE, _BATCH, _PERIOD, passes=1)
        return build(records=records, kernel=_KERNEL, terms=terms, ledger=ledger, noise=OperatingSystemNoise())

    def observe(self, vault: Vault, count: int) -> ObservedRun:
        """Return the observer's view of a run; see Subject.observe."""
        return ask_vault(vault, _queries(count // (_BATCH * _PERIOD)))

    def queries(self, records: Records) -> tuple[list[Query], Query]:
        """Return the paid queries and one beyond the budget; see Subject.queries."""
        *paid, excess = _queries(len(records) // (_BATCH * _PERIOD) + 1)
        return paid, excess

    def worlds(self) -> Mapping[str, Records]:
        """Return the data sets; see Subject.worlds."""
        worlds = {
            name: _alternating_records(length) for name, length in (("zero", 0.0), ("in the ball", 0.5), ("huge", 1e6))
        }
        return {**worlds, "canaries": self.canary_records(np.ones(_CHAINS, dtype=bool))}

    def p_values(self, records: Records, observed_run: ObservedRun) -> dict[str, float]:
        """Return p-values for the stated law; see Subject.p_values."""
        exact = [_chain_end(records, slot, point) for slot, point in enumerate(observed_run.points)]
        return GaussianLaw(self.sigma).p_values(observed_run.values, np.stack(exact))

    def canary_records(self, coins: NDArray[np.bool_]) -> Records:
        """Return the records for the given coins; see Subject.canary_records."""
        features = np.zeros((_CHAINS * _BATCH * _PERIOD, _KERNEL.features))
        labels = np.zeros(len(features), dtype=np.int64)
        positions = np.arange(1, _CHAINS + 1) * _BATCH * _PERIOD - 1
        features[positions, np.where(coins, 0, 1)] = 1.0
        labels[positions] = np.where(coins, 0, 1)
        return Records(features, labels)

    def scores(self, observed_run: ObservedRun) -> Floats:
        """Return each release's position between the chain ends of its canary's two worlds; see Subject.scores."""
        first, second = (self.canary_records(np.full(_CHAINS, world)) for world in (True, False))
        scores = []
        for slot, (value, point) in enumerate(zip(observed_run.values, observed_run.points, strict=True)):
            first_end, second_end = _chain_end(first, slot, point), _chain_end(second, slot, point)
            axis = first_end - second_end
            scores.append(float((value - second_end) @ axis / (axis @ axis)))
        return np.array(scores)


def _queries(count: int) -> list[Query]:
    weights = np.zeros((_KERNEL.features, _KERNEL.classes))
    weights[0] = -_CERTAIN_WEIGHT, _CERTAIN_WEIGHT
    weights[1] = _CERTAIN_WEIGHT, -_CERTAIN_WEIGHT
    point = np.concatenate([np.zeros(_KERNEL.size), weights.ravel()])
    return [Query(AUDITED, "chain", slot, point) for slot in range(count)]


def _alternating_records(length: float) -> Records:
    """Return records with varying features and labels, so that local steps change the model."""
    count = _CHAINS * _BATCH * _PERIOD
    features = np.zeros((count, _KERNEL.features))
    features[np.arange(count), np.arange(count) % _KERNEL.features] = length
    return Records(features, np.arange(count) // 3 % 2)


def _chain_end(records: Records, slot: int, point: Floats) -> Floats:
    """Return a chain's final model, computed as in the paper's listing."""
    local, shared_features = point[: _KERNEL.size].copy(), point[_KERNEL.size :]
    first = slot * _BATCH * _PERIOD
    for step in range(_PERIOD - 1):
        local -= 2 * _STEP_SIZE * _gradient(records, first + step * _BATCH, local)
    last = _gradient(records, first + (_PERIOD - 1) * _BATCH, shared_features)
    end: Floats = (shared_features + local) / 2 - _STEP_SIZE * last
    return end


def _gradient(records: Records, start: int, weights: Floats) -> Floats:
    batch = slice(start, start + _BATCH)
    features = records.features[batch]
    features = features / np.maximum(1.0, np.sqrt((features**2).sum(axis=1, keepdims=True)))
    gradients = _KERNEL.gradients(weights[np.newaxis], features[np.newaxis], records.labels[np.newaxis, batch])
    mean: Floats = gradients[0].mean(axis=0)
    return mean
