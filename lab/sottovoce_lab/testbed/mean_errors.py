"""Errors of published means relative to the true mean, which only the harness may know."""

from collections.abc import Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray
from sottovoce.algorithms.family import required_budget
from sottovoce.data import prepare_records
from sottovoce.data.products import Products
from sottovoce.kernels.profile import Profile, limit_norm
from sottovoce.privacy.terms.means import MeanTerms

from sottovoce_lab.testbed.measure import Errors, Meter
from sottovoce_lab.testbed.plan import Plan
from sottovoce_lab.testbed.prediction_errors import PredictionMeter, Regression

Vectors = NDArray[np.float64]


class ErrorMeter:
    """Measures the errors of published means.

    Args:
        vectors: each device's own vector, before clipping and noise, float64[n, d].
        profile: the part of a vector that is released.
        deviation: the standard deviation σ of the noise on each of a device's coefficients.
    """

    def __init__(self, vectors: Vectors, profile: Profile, deviation: float) -> None:
        self._truth = vectors.mean(axis=0)
        clipped = [limit_norm(profile.coefficients(vector), profile.bound) for vector in vectors]
        coefficients = np.mean(clipped, axis=0)
        self._clip = self._distance_from_truth(profile.vector(coefficients))
        self._prior = self._distance_from_truth(profile.vector(np.zeros(profile.size)))
        self._theory = deviation * profile.error / len(vectors) ** 0.5

    def measure_sample(self, models: Sequence[Vectors]) -> Errors:
        """Measure the errors of all agents' means, which is fast enough for each point of a curve."""
        return self.measure_all(models)

    def measure_all(self, models: Sequence[Vectors]) -> Errors:
        """Measure the errors of all agents' means."""
        errors = np.stack(models) - self._truth
        rmse = np.sqrt(np.mean(errors**2, axis=1))
        return Errors(
            loss_mean=float(np.mean((errors**2).sum(axis=1)) / 2),
            rmse_mean=float(rmse.mean()),
            rmse_max=float(rmse.max()),
            mae_mean=float(np.abs(errors).mean()),
            rmse_theory=self._theory,
            rmse_clip=self._clip,
            rmse_prior=self._prior,
            mean_size=float(np.abs(self._truth).mean()),
        )

    def _distance_from_truth(self, vector: Vectors) -> float:
        return float(np.sqrt(np.mean((vector - self._truth) ** 2)))


AnyMeter = Meter | ErrorMeter | PredictionMeter


def create_meter(plan: Plan) -> AnyMeter:
    """Create the meter for a plan's models."""
    model, seed = plan.family.model, plan.options.seed
    if "noise_deviation" not in plan.family.facts and plan.classes > 1:
        return Meter(model, plan.test, seed)
    device_records = [prepare_records(raw, plan.transform, plan.bounds) for raw in plan.raw]
    if "noise_deviation" not in plan.family.facts:
        return PredictionMeter(cast(Regression, model), plan.test, plan.target, device_records, seed)
    vectors = [rows.features.mean(axis=0) if len(rows) else np.zeros(model.size) for rows in device_records]
    terms = cast(MeanTerms, plan.family.terms)
    deviation = terms.deviation(required_budget(plan.config), len(vectors))
    if isinstance(terms.profile, Products):
        # Products are clipped block by block, so the devices' vectors are measured as they are released.
        vectors = [terms.profile.row(rows.features, rows.windows) for rows in device_records]
        return ErrorMeter(np.stack(vectors), Profile(terms.profile.size, terms.profile.bound), deviation)
    return ErrorMeter(np.stack(vectors), terms.profile, deviation)
