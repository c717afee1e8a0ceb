"""The interface that every scheme for releasing one record implements."""

from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from sottovoce.kernels.least_squares import Moments as Moments

Values = NDArray[np.int64]
Floats = NDArray[np.float64]

_CHUNK_NUMBERS = 2**22  # number of values in one block of rows, 32 MiB as float64


class Scheme(Protocol):
    """A scheme for releasing one record (x, y) with d features and c classes, defined only by public values.

    x is scaled to 1 in the norm `norm`; a record x = 0 stays 0. With two classes, a record has one copy y⁽¹⁾x, where
    y⁽¹⁾ = 1 for label 1 and -1 for label 0. With more classes, it has c copies, where y⁽ᵏ⁾ = 1 for label k and -1 for
    all other labels.
    """

    @property
    def name(self) -> str:
        """Return `laplace-copies`, `laplace`, `privunit`, `krr-privunit` or `exact`."""
        ...

    @property
    def features(self) -> int:
        """Return d, the number of features in the transformed record."""
        ...

    @property
    def classes(self) -> int:
        """Return c, the number of classes; labels are 0 … c - 1."""
        ...

    @property
    def epsilon(self) -> float | None:
        """Return the ε of one release: pure, replace-one, for the whole record with its label; None if noise-free."""
        ...

    @property
    def copies(self) -> int:
        """Return the number of one-vs-all copies y⁽ᵏ⁾x of a record: 1 for two classes, otherwise c."""
        ...

    @property
    def width(self) -> int:
        """Return the number of integers in one release."""
        ...

    @property
    def exponent(self) -> int:
        """Return the grid exponent; the vector part of a release has grid step 2**exponent."""
        ...

    @property
    def norm(self) -> Literal["l1", "l2"]:
        """Return the norm in which x is scaled to 1."""
        ...

    @property
    def error(self) -> float:
        """Return E‖estimate - y⁽ᵏ⁾x‖² / ‖x‖², in L2 norms, averaged over the copies and predicted without any data.

        If x has L1 norm 1, the ratio depends on x. The value then assumes a dense record with
        ‖x‖₁²/‖x‖₂² = 2d/π, the ratio for independent Gaussian features.
        """
        ...

    def emits(self, values: Values) -> bool:
        """Return whether a release may have these values, int64[width].

        The total probability of all other values is at most e^-60.
        """
        ...

    def decode(self, values: Values) -> Floats:
        """Return the unbiased estimates of y⁽ᵏ⁾x.

        Args:
            values: int64[n, width].

        Returns:
            float64[n, copies, d].
        """
        ...

    def moments(self, values: Values) -> Moments:
        """Return sums over all releases of unbiased estimates of y⁽ᵏ⁾x and of xxᵀ.

        On the sphere (`privunit`, `krr-privunit`), a record x = 0 counts in `second` as I/d, like a record with random
        direction.

        Args:
            values: int64[n, width].
        """
        ...


def copy_count(classes: int) -> int:
    """Return a record's number of one-vs-all copies: 1 for two classes, otherwise c."""
    return 1 if classes == 2 else classes


def label_signs(labels: Values, classes: int) -> Floats:
    """Return y⁽ᵏ⁾ = ±1, float64[n, copies], for labels int64[n]."""
    positive_labels = np.array([1]) if classes == 2 else np.arange(classes)
    return np.where(labels[:, np.newaxis] == positive_labels, 1.0, -1.0)


def from_tensor(tensor: Floats) -> Floats:
    """Return estimates of y⁽ᵏ⁾x, float64[…, copies, d], from estimates of x ⊗ e_y (yx for one copy) of the same shape.

    The function uses y⁽ᵏ⁾x = 2 T_k - Σ_j T_j for T = x ⊗ e_y.
    """
    if tensor.shape[-2] == 1:
        return tensor
    estimates: Floats = 2 * tensor - tensor.sum(axis=-2, keepdims=True)
    return estimates


def scaled(values: Values, factor: float, features: int) -> Floats:
    """Return the vector parts of releases, int64[n, k·d], multiplied by `factor`, as float64[n, k, d]."""
    vectors: Floats = values.astype(np.float64)
    vectors *= factor
    return vectors.reshape(len(values), values.shape[1] // features, features)


def sums(values: Values, features: int) -> tuple[Floats, Floats]:
    """Return the sum of int64[n, k·d] vectors as k blocks, float64[k, d], and Σ v vᵀ over all blocks, float64[d, d]."""
    first = values.sum(axis=0, dtype=np.float64).reshape(-1, features)
    second = np.zeros((features, features))
    rows = values.reshape(-1, features)
    step = max(1, _CHUNK_NUMBERS // features)
    for start in range(0, len(rows), step):
        block = rows[start : start + step].astype(np.float64)
        second += block.T @ block
    return first, second
