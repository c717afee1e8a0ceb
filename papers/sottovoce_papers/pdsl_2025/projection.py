"""DP-CGA's quadratic programme: of the gradients that oppose no neighbour's, find the nearest to the agent's own.

The programme is min ‖g - g_ii‖² subject to ⟨g, g_ij⟩ ≥ 0 for all j. In the dual, g = g_ii + Σ_j u_j g_ij, where the
multipliers u ≥ 0 minimise ‖g‖. This is non-negative least squares with one unknown per neighbour, regardless of the
model size.
"""

import numpy as np
from numpy.typing import NDArray

_SLACK = 1e-12  # tolerance on a cosine; anything smaller is a rounding error
_MAX_ITERATIONS = 30  # per vector, where one is usually enough; bounds the loop if rounding prevents convergence


def project(own_gradient: NDArray[np.float64], neighbour_gradients: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the projected gradient g, float64[P].

    ⟨g, g_ii⟩ ≥ 0 always holds, so `neighbour_gradients` may either include or omit the agent's own gradient.

    Args:
        own_gradient: float64[P], g_ii.
        neighbour_gradients: float64[m,P], g_ij; a zero vector imposes no constraint, and vectors may be equal or
            opposite.

    Returns:
        The projection of `own_gradient` onto the cone ⟨g, g_ij⟩ ≥ 0, up to ⟨g, g_ij⟩ ≥ -1e-12 ‖g_ii‖ ‖g_ij‖ for all j.
    """
    directions, lengths = _directions(np.vstack([neighbour_gradients, own_gradient]))
    active = lengths > 0
    active[-1] = True
    # In the basis of a QR factorisation, each of the m vectors has m coordinates, and the Gram matrix is unchanged.
    basis, factor = np.linalg.qr(directions[active].T)
    projected: NDArray[np.float64] = lengths[-1] * (basis @ _residual(-factor[:, :-1], factor[:, -1]))
    return projected


def _directions(vectors: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return unit vectors float64[m,P] and lengths float64[m], scaled so that no square over- or underflows."""
    peaks = np.abs(vectors).max(axis=1, keepdims=True, initial=0.0)
    scaled = np.divide(vectors, peaks, out=np.zeros_like(vectors), where=peaks > 0)
    lengths = np.sqrt(np.square(scaled).sum(axis=1, keepdims=True))
    np.divide(scaled, lengths, out=scaled, where=lengths > 0)
    return scaled, (peaks * lengths).ravel()


def _residual(matrix: NDArray[np.float64], target: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return target - matrix·u, float64[r], for the u ≥ 0 that minimises its length (Lawson & Hanson 1974, NNLS).

    Args:
        matrix: float64[r,m], with unit columns that may be linearly dependent.
        target: float64[r], a unit vector or 0.
    """
    count = matrix.shape[1]
    u = np.zeros(count)
    free = np.zeros(count, dtype=bool)
    residual = target
    for _ in range(_MAX_ITERATIONS * count):
        slope = np.where(free, -np.inf, matrix.T @ residual)
        entrant = int(slope.argmax())
        if slope[entrant] <= _SLACK:
            break
        free[entrant] = True
        solution = _least_squares(matrix, target, free)
        while (blocking := free & (solution <= 0)).any():
            decrease = u - solution
            shares = np.divide(u, decrease, out=np.zeros(count), where=decrease > 0)
            shares[~blocking] = np.inf
            u = np.maximum(u + shares.min() * (solution - u), 0.0)
            free &= shares > shares.min()
            u[~free] = 0.0
            solution = _least_squares(matrix, target, free)
        u = solution
        # Computing target - matrix·u instead would cause cancellation if nearly opposite columns have a large u.
        basis = np.linalg.qr(matrix[:, free]).Q
        residual = target - basis @ (basis.T @ target)
    return residual


def _least_squares(
    matrix: NDArray[np.float64], target: NDArray[np.float64], free: NDArray[np.bool_]
) -> NDArray[np.float64]:
    solution = np.zeros(matrix.shape[1])
    solution[free] = np.linalg.lstsq(matrix[:, free], target, rcond=None)[0]
    return solution
