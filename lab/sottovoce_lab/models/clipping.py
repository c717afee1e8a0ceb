"""Compute the sum of clipped gradients from per-example gradients, with the arithmetic that the privacy proof uses.

Each example's gradient consists of float32 numbers that depend only on that example and the parameters. All further
steps (the norm, the scale factor and the sum) use float64 (docs/decisions/0024-gradients-in-the-graph.md).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Protocol

import numpy as np
from sottovoce.kernels.kernel import SAFETY

from sottovoce_lab.models.tape import Tape, Value

CANCELLATION = 2.0**-20
"""Fraction of (Σ_l ‖A_l‖ ‖D_l‖)² added to the squared norm of a factored gradient."""
MAX_POSITIONS = 64
"""Maximum number L of positions in a factored gradient."""


class Contribution(Protocol):
    """Per-example gradients over a batch with respect to one parameter tensor."""

    @property
    def floats(self) -> int:
        """The approximate peak memory per example, in four-byte values."""
        ...

    @property
    def positions(self) -> int:
        """The number L of positions per example if products of all pairs of positions are computed, otherwise 1."""
        ...

    def squared_norm(self, tape: Tape) -> Value:
        """Record an upper bound, up to rounding, on each example's squared gradient norm, float64[B]."""
        ...

    def weighted_sum(self, tape: Tape, ok: Value, weight: Value) -> Value:
        """Record the weighted sum over the gradients of all valid examples, as a flat vector float64[size].

        Args:
            tape: the tape on which to record operations.
            ok: whether each example is valid, bool[B, 1]; gradients of invalid examples may have any value.
            weight: each example's weight, float64[B, 1]; 0 for invalid examples.
        """
        ...


@dataclass(frozen=True, slots=True)
class ExplicitGradient:
    """Gradients that are computed explicitly.

    Attributes:
        gradient: per-example gradients, float32[B, size].
        size: the number of elements in the parameter tensor.
    """

    gradient: Value
    size: int

    @property
    def floats(self) -> int:
        """The memory per example, for the gradients in both float32 and float64; see Contribution.floats."""
        return 3 * self.size

    @property
    def positions(self) -> int:
        """The number of positions, always 1; see Contribution.positions."""
        return 1

    def squared_norm(self, tape: Tape) -> Value:
        """Record the squared norms; see Contribution.squared_norm."""
        return _squares(tape, tape.cast(self.gradient, np.float64), -1)

    def weighted_sum(self, tape: Tape, ok: Value, weight: Value) -> Value:
        """Record the weighted sum; see Contribution.weighted_sum."""
        gradient = _zero_unless_ok(tape, ok, tape.cast(self.gradient, np.float64))
        return tape.reshape(tape.op("Gemm", weight, gradient, transA=1), -1)


@dataclass(frozen=True, slots=True)
class TransposedGradient:
    """Gradients of a weight float[M, K], stored in parts in the transposed layout K × M. Only their sum is transposed.

    Attributes:
        parts: each contains some rows of every group, in the order of K, float32[B, groups · rows · M].
        groups: the number of groups in K.
        filters: the number M of filters.
        work: how many values per example are needed to compute the parts.
    """

    parts: tuple[ExplicitGradient, ...]
    groups: int
    filters: int
    work: int

    @property
    def floats(self) -> int:
        """The memory per example, for the parts and the values that they need; see Contribution.floats."""
        return sum(part.floats for part in self.parts) + self.work

    @property
    def positions(self) -> int:
        """The number of positions, always 1; see Contribution.positions."""
        return 1

    def squared_norm(self, tape: Tape) -> Value:
        """Record the squared norms, summed over the parts; see Contribution.squared_norm."""
        return tape.op("Sum", *(part.squared_norm(tape) for part in self.parts))

    def weighted_sum(self, tape: Tape, ok: Value, weight: Value) -> Value:
        """Record the weighted sum; see Contribution.weighted_sum."""
        sums = (part.weighted_sum(tape, ok, weight) for part in self.parts)
        grouped = (tape.reshape(part_sum, self.groups, -1, self.filters) for part_sum in sums)
        rows = tape.reshape(tape.op("Concat", *grouped, axis=1), -1, self.filters)
        return tape.reshape(tape.op("Transpose", rows, perm=[1, 0]), -1)


@dataclass(frozen=True, slots=True)
class OuterProductGradient:
    """Gradients of a weight float[M, K] that are outer products D ⊗ A.

    Attributes:
        D: the left factor, float32[B, M].
        A: the right factor, float32[B, K].
        sizes: M and K.
    """

    D: Value
    A: Value
    sizes: tuple[int, int]

    @property
    def floats(self) -> int:
        """The memory per example, for the factors in float64; see Contribution.floats."""
        return 2 * sum(self.sizes)

    @property
    def positions(self) -> int:
        """The number of positions, always 1; see Contribution.positions."""
        return 1

    def squared_norm(self, tape: Tape) -> Value:
        """Record the squared norms, ‖D‖² ‖A‖²; see Contribution.squared_norm."""
        D, A = (_squares(tape, tape.cast(factor, np.float64), -1) for factor in (self.D, self.A))
        return tape.op("Mul", D, A)

    def weighted_sum(self, tape: Tape, ok: Value, weight: Value) -> Value:
        """Record the weighted sum; see Contribution.weighted_sum."""
        D, A = (_zero_unless_ok(tape, ok, tape.cast(factor, np.float64)) for factor in (self.D, self.A))
        return tape.reshape(tape.op("Gemm", tape.op("Mul", D, weight), A, transA=1), -1)


@dataclass(frozen=True, slots=True)
class FactoredGradient:
    """Gradients Σ_l D_l ⊗ A_l of a weight float[M, K], summed over positions l.

    Attributes:
        D: the left factors, float32[B, M, L].
        A: the right factors, float32[B, K, L].
        sizes: M, K and L.
    """

    D: Value
    A: Value
    sizes: tuple[int, int, int]

    @staticmethod
    def is_cheaper(M: int, K: int, L: int) -> bool:
        """Return whether this form is cheaper, that is, whether there are fewer position pairs than weights."""
        return 2 * L**2 < M * K and L <= MAX_POSITIONS

    @property
    def floats(self) -> int:
        """The memory per example, for the factors in float32, in float64 and transposed; see Contribution.floats."""
        M, K, L = self.sizes
        return 5 * L * (M + K) + 6 * L**2

    @property
    def positions(self) -> int:
        """The number L of positions; see Contribution.positions."""
        return self.sizes[2]

    def squared_norm(self, tape: Tape) -> Value:
        """Record an upper bound on the squared norms; see Contribution.squared_norm.

        The bound is Σ_l Σ_l' (A_l·A_l') (D_l·D_l') plus a small fraction of (Σ_l ‖A_l‖ ‖D_l‖)². The terms of the first
        sum may cancel out, and the added fraction is larger than any rounding error in that sum.
        """
        factors = [tape.cast(factor, np.float64) for factor in (self.D, self.A)]
        products = [tape.op("MatMul", tape.op("Transpose", factor, perm=[0, 2, 1]), factor) for factor in factors]
        exact = tape.op("ReduceSum", tape.op("Mul", *products), tape.integers(1, 2), keepdims=0)
        lengths = [tape.op("Sqrt", _squares(tape, factor, 1)) for factor in factors]
        parts = tape.op("ReduceSum", tape.op("Mul", *lengths), tape.integers(1), keepdims=0)
        allowance = tape.op("Mul", tape.op("Mul", parts, parts), tape.constant(CANCELLATION, np.float64))
        return tape.op("Add", exact, allowance)

    def weighted_sum(self, tape: Tape, ok: Value, weight: Value) -> Value:
        """Record the weighted sum; see Contribution.weighted_sum."""
        M, K, _ = self.sizes
        ok, weight = (tape.reshape(value, -1, 1, 1) for value in (ok, weight))
        D, A = (_zero_unless_ok(tape, ok, tape.cast(factor, np.float64)) for factor in (self.D, self.A))
        D = tape.reshape(tape.op("Transpose", tape.op("Mul", D, weight), perm=[1, 0, 2]), M, -1)
        A = tape.reshape(tape.op("Transpose", A, perm=[0, 2, 1]), -1, K)
        return tape.reshape(tape.op("MatMul", D, A), -1)


def clipped_sum(tape: Tape, contributions: Sequence[Contribution], mask: Value, clip: Value) -> Value:
    """Record the sum of per-example gradients, each scaled down to a norm of at most SAFETY · clip.

    An example that the mask excludes, or whose squared gradient norm is not finite, contributes exactly 0.

    Args:
        tape: the tape on which to record operations.
        contributions: the per-example gradients, one contribution per parameter tensor.
        mask: whether each example is included, bool[B].
        clip: the clip norm, greater than 0, float64[].

    Returns:
        The sum, float64[P].
    """
    squared = tape.op("Sum", *(part.squared_norm(tape) for part in contributions))
    ok = tape.op("And", mask, tape.op("Less", squared, tape.constant(inf, np.float64)))
    norm = tape.op("Sqrt", squared)
    bound = tape.op("Mul", clip, tape.constant(SAFETY, np.float64))
    scale = tape.op(
        "Where",
        tape.op("LessOrEqual", norm, bound),
        tape.constant(1, np.float64),
        tape.op("Div", bound, norm),
    )
    ok, weight = (tape.reshape(value, -1, 1) for value in (ok, _zero_unless_ok(tape, ok, scale)))
    return tape.op("Concat", *(part.weighted_sum(tape, ok, weight) for part in contributions), axis=0)


def _squares(tape: Tape, value: Value, axis: int) -> Value:
    squares = tape.op("Mul", value, value)  # ONNX Runtime takes twice as long for ReduceSumSquare
    return tape.op("ReduceSum", squares, tape.integers(axis), keepdims=0)


def _zero_unless_ok(tape: Tape, ok: Value, value: Value) -> Value:
    """Replace rows that are not ok with 0, because multiplying them by 0 could produce NaN."""
    return tape.op("Where", ok, value, tape.constant(0, np.float64))
