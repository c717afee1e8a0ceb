"""Example of your own record mechanism: Laplace noise on each number of a record, for learners such as golf."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from sottovoce.plugin import (
    Floats,
    Moments,
    RecordMechanismPlugin,
    Values,
    Words,
    copy_count,
    from_tensor,
    label_signs,
    scaled,
    sums,
)


@dataclass(frozen=True)
class OwnLaplace:
    """Laplace noise of scale 2/ε on record ⊗ label.

    The product has L1 length 1, so two records differ by at most 2. The Laplace noise is the difference of two
    exponential variables.
    """

    features: int
    classes: int
    epsilon: float
    name = "own-laplace"
    exponent = -20
    norm: Literal["l1"] = "l1"

    @property
    def copies(self) -> int:
        return copy_count(self.classes)

    @property
    def width(self) -> int:
        return self.copies * self.features

    @property
    def error(self) -> float:
        return 8 / self.epsilon**2 * self.width * max(1.0, 2 * self.features / math.pi)

    def release(self, row: Floats, label: int, words: Words) -> Values:
        length = float(np.abs(row).sum())
        unit = row / length if length else row
        signs = label_signs(np.array([label]), self.classes)[0]
        block = signs if self.copies == 1 else (signs > 0).astype(np.float64)
        uniform = (words(2 * self.width).reshape(2, -1) >> np.uint64(11)).astype(np.float64) * 2.0**-53 + 2.0**-54
        noise = (np.log(uniform[0]) - np.log(uniform[1])) * 2 / self.epsilon  # Laplace
        values: Values = np.rint((np.outer(block, unit).ravel() + noise) * 2.0**-self.exponent).astype(np.int64)
        return values

    def emits(self, values: Values) -> bool:
        return float(np.abs(values).max()) * 2.0**self.exponent <= 1 + 2 / self.epsilon * 80

    def decode(self, values: Values) -> Floats:
        return from_tensor(scaled(values, 2.0**self.exponent, self.features))

    def moments(self, values: Values) -> Moments:
        first, second = sums(values, self.features)
        second = second * 4.0**self.exponent
        second.flat[:: self.features + 1] -= len(values) * self.copies * 8 / self.epsilon**2
        return Moments(from_tensor(first * 2.0**self.exponent), second, len(values))


MECHANISM = RecordMechanismPlugin(OwnLaplace, "Laplace noise of scale 2/ε in floating point")
