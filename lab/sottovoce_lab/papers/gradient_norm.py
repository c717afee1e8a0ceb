"""Measure the norm of the training objective's gradient at the mean of all models, together with the accuracy."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray
from sottovoce.data import Records, prepare_records
from sottovoce.kernels import Kernel

from sottovoce_lab.testbed.measure import Meter, Metrics
from sottovoce_lab.testbed.plan import Plan

_MAX_RECORDS = 2000


@dataclass(frozen=True, slots=True)
class GradientMetrics(Metrics):
    """Metrics with the L2 norm of the mean gradient over the training records."""

    gradient_norm: float


class GradientMeter(Meter):
    """Measures models on the test set, and the gradient at their mean on up to 2,000 training records.

    Args:
        plan: a plan whose learner uses gradients.
    """

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan.family.model, plan.test, plan.options.seed)
        self._gradients = cast(Kernel, plan.family.kernel)
        device_records = [prepare_records(raw, plan.transform, plan.bounds) for raw in plan.raw]
        all_records = Records(
            np.concatenate([records.features for records in device_records]),
            np.concatenate([records.labels for records in device_records]),
        )
        rows = np.random.default_rng(plan.options.seed).permutation(len(all_records))[:_MAX_RECORDS]
        self._training = all_records.at(rows)

    def _measure(self, models: Sequence[NDArray[np.float64]], records: Records) -> GradientMetrics:
        measures = super()._measure(models, records)
        mean = np.mean(models, axis=0)
        training = self._training
        total = self._gradients.clipped_gradient_sum(mean, training.features, training.labels, math.inf)
        norm = float(np.linalg.norm(total)) / len(training)
        return GradientMetrics(
            measures.accuracy_mean, measures.accuracy_min, measures.accuracy_max, measures.loss_mean, norm
        )
