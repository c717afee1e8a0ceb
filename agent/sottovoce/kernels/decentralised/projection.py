"""DP-CGA's quadratic programme, which finds the gradient nearest to the agent's that opposes no neighbour's gradient.

The programme is min ‖g - g_ii‖² subject to ⟨g, g_ij⟩ ≥ 0 for all j. In the dual, g = g_ii + Σ_j u_j g_ij, where the
multipliers u ≥ 0 minimise ‖g‖. This is nonnegative least squares with one unknown per neighbour, whatever the model
size.
"""

import numpy as np
from numpy.typing import NDArray

_SLACK = 1e-12  # tolerance on a cosine; anything smaller is a rounding error
_ROUNDS = 30  # per vector, where one is usually enough; bounds the loop if rounding prevents convergence


def project(own: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the projected gradient g, float64[P].

    ⟨g, own⟩ ≥ 0 always holds, so `others` may either include or omit the agent's own gradient.

    Args:
        own: float64[P], g_ii.
        others: float64[m,P], g_ij; a zero vector imposes no constraint, and vectors may be equal or opposite.

    Returns:
        The projection of `own` onto the cone ⟨g, g_ij⟩ ≥ 0, up to ⟨g, g_ij⟩ ≥ -1e-12 ‖g_ii‖ ‖g_ij‖ for all j.
    """
    directions, lengths = _directions(np.vstack([others, own]))
    asking = lengths > 0
    asking[-1] = True
    # In the basis of a QR factorisation, each of the m vectors has m coordinates, and the Gram matrix is unchanged.
    basis, factor = np.linalg.qr(directions[asking].T)
    projected: NDArray[np.float64] = lengths[-1] * (basis @ _remainder(-factor[:, :-1], factor[:, -1]))
    return projected


def _directions(vectors: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return unit vectors float64[m,P] and lengths float64[m], scaled so that no square over- or underflows."""
    peaks = np.abs(vectors).max(axis=1, keepdims=True, initial=0.0)
    scaled = np.divide(vectors, peaks, out=np.zeros_like(vectors), where=peaks > 0)
    lengths = np.sqrt(np.square(scaled).sum(axis=1, keepdims=True))
    np.divide(scaled, lengths, out=scaled, where=lengths > 0)
    return scaled, (peaks * lengths).ravel()


def _remainder(matrix: NDArray[np.float64], aim: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return aim - matrix·u, float64[r], for the u ≥ 0 that minimises its length (Lawson & Hanson 1974, NNLS).

    Args:
        matrix: float64[r,m], with unit columns that may be linearly dependent.
        aim: float64[r], a unit vector or 0.
    """
    count = matrix.shape[1]
    u = np.zeros(count)
    free = np.zeros(count, dtype=bool)
    rest = aim
    for _ in range(_ROUNDS * count):
        slope = np.where(free, -np.inf, matrix.T @ rest)
        entrant = int(slope.argmax())
        if slope[entrant] <= _SLACK:
            break
        free[entrant] = True
        best = _least_squares(matrix, aim, free)
        while (falling := free & (best <= 0)).any():
            drop = u - best
            shares = np.divide(u, drop, out=np.zeros(count), where=drop > 0)
            shares[~falling] = np.inf
            u = np.maximum(u + shares.min() * (best - u), 0.0)
            free &= shares > shares.min()
            u[~free] = 0.0
            best = _least_squares(matrix, aim, free)
        u = best
        # Computing aim - matrix·u instead would cause cancellation if nearly opposite columns have a large u.
        span = np.linalg.qr(matrix[:, free]).Q
        rest = aim - span @ (span.T @ aim)
    return rest


def _least_squares(
    matrix: NDArray[np.float64], aim: NDArray[np.float64], free: NDArray[np.bool_]
) -> NDArray[np.float64]:
    solution = np.zeros(matrix.shape[1])
    solution[free] = np.linalg.lstsq(matrix[:, free], aim, rcond=None)[0]
    return solution
