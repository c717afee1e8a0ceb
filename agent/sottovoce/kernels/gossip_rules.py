"""Update rules and merging for gossip learning (Hegedűs & Jelasity 2017).

The rules work on perturbed records, or with gradients that are perturbed at each visit.

A model is a stack of k linear binary models, `weights[N,k,d]`, and a counter `steps[N]` that travels with it: the
number of updates t in the model's history, which determines its step size 1/(λt). A record is q[N,k,d], with
q = y^(k)x + noise. Both rules use y and x only through their product, so it is enough to publish q once.

Every operation is elementwise or a sum along one contiguous row. BLAS is not used, because its summation order may
depend on an array's address. A node's result is therefore bit-identical whichever other nodes are computed in the same
call. Results have the same dtype as the weights.

Gradient perturbation, which adds noise to a gradient per visit, is a baseline in the paper.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sottovoce.kernels.per_example import inner

LAMBDA = 1e-4
"""The regularisation parameter λ in the paper."""

Float = TypeVar("Float", bound=np.floating[Any])
Model = tuple[NDArray[Float], NDArray[np.int64]]
Slope = Callable[[NDArray[Any]], NDArray[Any]]


def hinge_slope(margins: NDArray[Float]) -> NDArray[Float]:
    """Return 1[m < 1] for margins m = w'q, which is the negative derivative of the hinge loss."""
    return (margins < 1).astype(margins.dtype)


@np.errstate(over="ignore")  # exp of a large margin overflows to infinity, for which the slope is correctly 0
def logistic_slope(margins: NDArray[Float]) -> NDArray[Float]:
    """Return 1 - 1/(1 + exp(-m)) = 1/(1 + exp(m)), which is the negative derivative of ln(1 + exp(-m))."""
    slopes: NDArray[Float] = 1 / (1 + np.exp(margins))
    return slopes


def pegasos(weights: NDArray[Float], steps: NDArray[np.int64], records: NDArray[Float]) -> Model[Float]:
    """Apply the Pegasos SVM update, rule (14): t ← t+1; w ← (1 - 1/t)w + 1[w'q < 1]q/(λt).

    Args:
        weights: float[N,k,d].
        steps: int64[N], t before the update, starting at 0.
        records: float[N,k,d], the records q.

    Returns:
        The new weights and steps, in new arrays.
    """
    return _update(weights, steps, records, hinge_slope)


def logistic(weights: NDArray[Float], steps: NDArray[np.int64], records: NDArray[Float]) -> Model[Float]:
    """Apply the logistic regression update, rule (15): w ← (1 - 1/t)w + (1 - 1/(1 + exp(-w'q)))q/(λt), after t ← t+1.

    See `pegasos` for the arguments and the result.
    """
    return _update(weights, steps, records, logistic_slope)


UpdateRule = Callable[[NDArray[Any], NDArray[np.int64], NDArray[Any]], tuple[NDArray[Any], NDArray[np.int64]]]
UPDATE_RULES: dict[str, UpdateRule] = {"pegasos": pegasos, "logistic": logistic}
SLOPES: dict[str, Slope] = {"pegasos": hinge_slope, "logistic": logistic_slope}


def merge(
    weights: NDArray[Float], steps: NDArray[np.int64], other_weights: NDArray[Float], other_steps: NDArray[np.int64]
) -> Model[Float]:
    """Merge two models as in Algorithm 1, averaging the weights and keeping the larger counter.

    The paper does not define the merged model's counter. The larger one prevents step sizes from growing again.

    Args:
        weights: float[N,k,d].
        steps: int64[N].
        other_weights: float[N,k,d].
        other_steps: int64[N].

    Returns:
        The merged weights and steps, in new arrays.
    """
    merged = weights + other_weights
    merged *= weights.dtype.type(0.5)
    return merged, np.maximum(steps, other_steps)


def _update(weights: NDArray[Float], steps: NDArray[np.int64], records: NDArray[Float], slope: Slope) -> Model[Float]:
    margins = inner(weights, records)
    steps = steps + 1
    rates = (slope(margins) / (LAMBDA * steps)[:, np.newaxis]).astype(weights.dtype)
    updated = records * rates[:, :, np.newaxis]
    updated += weights * (1 - 1 / steps).astype(weights.dtype)[:, np.newaxis, np.newaxis]
    return updated, steps


def descents(weights: NDArray[Float], batch: NDArray[Float], slope: Slope) -> NDArray[Float]:
    """Return each record's negative loss (sub)gradient, slope(w'q) · q, without the regulariser.

    Slopes lie between 0 and 1, so a descent vector is never longer than its record in any norm.

    Args:
        weights: float[N,k,d].
        batch: float[N,b,k,d], each node's records as y^(k)x.
        slope: the negative derivative of the loss with respect to the margin, such as `hinge_slope`.

    Returns:
        float[N,b,k,d].
    """
    margins = inner(weights[:, np.newaxis], batch)
    vectors: NDArray[Float] = slope(margins)[..., np.newaxis] * batch
    return vectors


def descend(
    weights: NDArray[Float], steps: NDArray[np.int64], noisy_gradients: NDArray[Float]
) -> tuple[NDArray[Float], NDArray[np.int64]]:
    """Take the step t ← t+1; w ← w - (λw + g)/(λt).

    Args:
        weights: float[N,k,d].
        steps: int64[N], t before the step, starting at 0.
        noisy_gradients: float[N,k,d], the noisy gradients g.

    Returns:
        The new weights and steps, in new arrays.
    """
    steps = steps + 1
    shrunk = weights * (1 - 1 / steps).astype(weights.dtype)[:, np.newaxis, np.newaxis]
    rates = (1 / (LAMBDA * steps)).astype(weights.dtype)[:, np.newaxis, np.newaxis]
    return shrunk - noisy_gradients * rates, steps
