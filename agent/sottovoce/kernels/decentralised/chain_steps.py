"""The steps of Jin, He & Dai 2023, Algorithm 1: private local descent, and a chain of noisy global models.

A local step sends nothing; its result must be kept as private as the records. Models are float64 arrays of equal shape.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import ConfigError

StepSchedule = Callable[[int], float]
"""Returns the step size η_t for step t = 1, 2, …"""


def local_step(model: NDArray[np.float64], gradient: NDArray[np.float64], step_size: float) -> NDArray[np.float64]:
    """Return w^L after the step w^L ← w^L - 2η ∇f_D(w^L), where the factor 2 comes from the paper.

    Args:
        model: w^L.
        gradient: the mean gradient over the batch D at w^L.
        step_size: η.
    """
    return model - 2 * step_size * gradient


def global_step(
    latest: NDArray[np.float64],
    local: NDArray[np.float64],
    gradient: NDArray[np.float64],
    noise: NDArray[np.float64],
    step_size: float,
) -> NDArray[np.float64]:
    """Return w^G ← (w^G + w^L)/2 - η(∇f_D(w^G) + N), which the agent publishes and uses as its next w^L.

    Args:
        latest: w^G, as published by the last agent to update it.
        local: w^L.
        gradient: the mean gradient over the batch D at w^G.
        noise: N. Theorem 2 calibrates ηN to the sensitivity in Lemma 4, so divide its noise by η.
        step_size: η.
    """
    return (latest + local) / 2 - step_size * (gradient + noise)


def constant(step_size: float) -> StepSchedule:
    """Return the schedule η_t = η for convex losses. Lemma 4 holds for η ≤ 1/(2μ), where μ is the smoothness.

    Raises:
        ConfigError: if η is not positive.
    """
    size = _check_positive("step size", step_size)
    return lambda t: size


def strongly_convex(a: float, convexity: float, smoothness: float | None) -> StepSchedule:
    """Return the schedule η_t = min(1/(2μ), 1/(aγt)) for strongly convex losses.

    Args:
        a: the constant a in Theorem 4, at least half the probability of exploring.
        convexity: the strong convexity γ.
        smoothness: μ, or None for 1/(aγt) as printed in the paper, whose first steps violate the condition in Lemma 4.

    Raises:
        ConfigError: if an argument is not positive.
    """
    slope = _check_positive("constant a", a) * _check_positive("strong convexity", convexity)
    largest = math.inf if smoothness is None else 1 / (2 * _check_positive("smoothness", smoothness))
    return lambda t: min(largest, 1 / (slope * t))


def inverse_square_root() -> StepSchedule:
    """Return η_t = 1/√t, the schedule of the baseline DP-SGD-With-Replacement."""
    return lambda t: 1 / math.sqrt(t)


def project_onto_ball(model: NDArray[np.float64], radius: float) -> NDArray[np.float64]:
    """Project a model, treated as one vector, onto the ball of radius R. This map never increases distances.

    Args:
        model: w, of any shape.
        radius: R.

    Raises:
        ConfigError: if R is not positive.
    """
    length = float(np.linalg.norm(model.ravel()))
    if length <= _check_positive("radius", radius):
        return model.copy()
    return model * (radius / length)


def _check_positive(name: str, number: float) -> float:
    if not 0 < number < math.inf:
        raise ConfigError(f"the {name} must be a positive number, not {number}: correct the learner's settings")
    return number
