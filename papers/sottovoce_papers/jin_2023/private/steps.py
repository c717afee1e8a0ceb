"""Steps on batches of records, for chains with a public period and for chains whose ends a controller chooses."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sottovoce.plugin import (
    Kernel,
    Records,
    StepSchedule,
    Units,
    constant,
    global_step,
    local_step,
    project_onto_ball,
    select_units,
    strongly_convex,
)

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class StepSizes:
    """Step sizes η_t, where t counts the device's batches, starting at 1.

    Without a regulariser, η_t = η; with one, η_t = min(η, 1/(aγt)), where γ = λ.

    Attributes:
        first: η; None for 1/(aγt) without an upper limit, as printed in the paper.
        slope: a.
        regularisation: λ; 0 for a constant η.
    """

    first: float | None
    slope: float = 0.5
    regularisation: float = 0.0

    @property
    def schedule(self) -> StepSchedule:
        """η_t as a non-increasing function of t."""
        if self.first is not None and not self.regularisation:
            return constant(self.first)
        return strongly_convex(self.slope, self.regularisation, None if self.first is None else 1 / (2 * self.first))


@dataclass(frozen=True, slots=True)
class ChainSteps:
    """The two steps of Algorithm 1 on a device's batches, which are consecutive runs of b record numbers.

    A deleted record is missing from its batch, but b does not change: the record contributes 0 to the mean gradient.

    Attributes:
        kernel: the model; each record's features are scaled into the unit ball separately.
        sizes: step sizes.
        batch: b, the batch size.
        radius: R, radius of the ball onto which every model is projected; None for no projection.
    """

    kernel: Kernel
    sizes: StepSizes
    batch: int
    radius: float | None = None

    @property
    def regularisation(self) -> float:
        """λ, the strength of the term (λ/2)‖w‖² in the loss."""
        return self.sizes.regularisation

    def step_locally(self, model: Floats, records: Records, number: int, start: int) -> Floats:
        """Return w^L after a local step.

        Args:
            model: w^L, float64[P].
            records: records with their numbers.
            number: index of the batch among all of this device's batches, starting at 0.
            start: number of the first record in the batch.
        """
        updated = local_step(model, self.gradient(model, records, start), self.sizes.schedule(number + 1))
        return updated if self.radius is None else project_onto_ball(updated, self.radius)

    def step_globally(self, latest: Floats, local: Floats, records: Records, number: int, start: int) -> Floats:
        """Return w^G after a global step, before noise. See `step_locally`."""
        step_size, no_noise = self.sizes.schedule(number + 1), np.zeros_like(latest)
        return global_step(latest, local, self.gradient(latest, records, start), no_noise, step_size)

    def gradient(self, point: Floats, records: Records, start: int) -> Floats:
        """Return the mean gradient of one batch, including the regulariser's gradient."""
        batch = self._batch(records, start)
        mean = (
            self.kernel.clipped_gradient_sum(point, clip_to_unit_ball(batch.features), batch.labels, math.inf)
            / self.batch
        )
        return mean + self.regularisation * point if self.regularisation else mean

    def loss(self, point: Floats, records: Records, start: int) -> float:
        """Return the mean loss of one batch, including the regulariser."""
        batch = self._batch(records, start)
        losses = self.kernel.loss(point[np.newaxis], clip_to_unit_ball(batch.features), batch.labels)
        return float(losses[0]) + self.regularisation / 2 * float(point @ point)

    def _batch(self, records: Records, start: int) -> Records:
        return select_units(records, Units(((start, start + self.batch - 1),)))


def clip_to_unit_ball(rows: Floats) -> Floats:
    """Divide each row by its L2 norm if the norm exceeds 1; a row whose norm is not finite becomes 0."""
    with np.errstate(over="ignore", invalid="ignore"):  # a warning would reveal something about a record
        norms = np.sqrt(np.add.reduce(np.square(np.ascontiguousarray(rows)), axis=1))
    is_finite = np.isfinite(norms)
    scaled: Floats = np.where(is_finite[:, np.newaxis], rows, 0.0)
    return scaled / np.maximum(1.0, np.where(is_finite, norms, 1.0))[:, np.newaxis]
