"""Mechanism that draws the release of one record exactly, for each scheme."""

from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from sottovoce.data import Records
from sottovoce.errors import InternalError
from sottovoce.privacy.mechanisms.noise import NoiseSource
from sottovoce.privacy.mechanisms.samplers.discrete_laplace import DiscreteLaplaceSampler
from sottovoce.privacy.mechanisms.samplers.lazy_reals import Tape, draw_exactly
from sottovoce.privacy.mechanisms.samplers.sphere import draw_point, draw_uniform_point
from sottovoce.privacy.perturbation import (
    Cap,
    Exact,
    LabelledPrivUnit,
    Laplace,
    LaplaceCopies,
    PrivUnit,
    RandomisedLabel,
    Scheme,
)
from sottovoce.privacy.perturbation.cap import PROBABILITY_BITS
from sottovoce.privacy.perturbation.plugin import ReleasingScheme

Row = NDArray[np.float64]


def l1_units(row: Row, unit: int) -> list[int]:
    """Return unit · x / ‖x‖₁, rounded toward zero: integers whose absolute values add up to at most `unit`.

    Args:
        row: float64[d]; a row that is not finite counts as zero.
        unit: the norm 1 in grid units.
    """
    integers = _integers(row)
    length = sum(map(abs, integers)) or 1
    return [abs(integer) * unit // length * (1 if integer > 0 else -1) for integer in integers]


def l2_unit(row: Row) -> list[Decimal] | None:
    """Return x / ‖x‖₂, each value correct to the precision of the current decimal context; None for x = 0.

    Args:
        row: float64[d]; a row that is not finite counts as zero.
    """
    integers = _integers(row)
    if not any(integers):
        return None
    length = Decimal(sum(integer * integer for integer in integers)).sqrt()
    return [Decimal(integer) / length for integer in integers]


def _integers(row: Row) -> list[int]:
    """Return integers in exactly the same proportions as the floats in `row`."""
    if not np.isfinite(row).all():
        return [0] * len(row)
    ratios = [number.as_integer_ratio() for number in row.tolist()]
    common = max(denominator for _, denominator in ratios)
    return [numerator * (common // denominator) for numerator, denominator in ratios]


Values = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RecordMechanism:
    """Mechanism that releases one record by `scheme`; ε-DP under replace-one, with the scheme's ε and δ = 0.

    Attributes:
        scheme: scheme that defines the release.
    """

    scheme: Scheme

    @property
    def size(self) -> int:
        """Number of integers in a release."""
        return self.scheme.width

    @property
    def exponent(self) -> int:
        """Exponent of the grid; the grid step of a release is 2**exponent."""
        return self.scheme.exponent

    def apply(self, raw: Records, noise: NoiseSource) -> Values:
        """See Mechanism.apply; `raw` contains a single record.

        Raises:
            InternalError: if the record does not have the scheme's shape; nothing was drawn.
        """
        scheme = self.scheme
        if raw.features.shape != (1, scheme.features) or not 0 <= int(raw.labels[0]) < scheme.classes:
            raise InternalError(
                "a record that does not have the scheme's shape reached the vault: this is a bug; please report it"
            )
        row, label = raw.features[0], int(raw.labels[0])
        match scheme:
            case LaplaceCopies():
                return _add_laplace(scheme, row, _label_signs(scheme.classes, label), noise)
            case Laplace():
                return _add_laplace(scheme, row, _label_vector(scheme.classes, label), noise)
            case PrivUnit():
                signs = _label_vector(scheme.classes, label)
                block = int(np.flatnonzero(signs)[0])
                return _draw_on_sphere(scheme.cap, scheme.exponent, signs[block] * row, block * scheme.features, noise)
            case LabelledPrivUnit():
                answer = _randomise_label(scheme.label, label, noise)
                return np.concatenate([[answer], _draw_on_sphere(scheme.cap, scheme.exponent, row, 0, noise)])
            case ReleasingScheme():
                return scheme.release(row, label, noise.random_words)
            case Exact():
                unit = l2_unit(row) or [Decimal(0)] * scheme.features
                return np.array([label, *(round(number * (1 << -scheme.exponent)) for number in unit)], dtype=np.int64)
        raise InternalError(f"there is no mechanism for scheme `{scheme.name}`: this is a bug; please report it")


def _label_signs(classes: int, label: int) -> Values:
    """Return the label sign y⁽ᵏ⁾ for each copy, int64[copies]."""
    if classes == 2:
        return np.array([2 * label - 1])
    return np.where(np.arange(classes) == label, 1, -1)


def _label_vector(classes: int, label: int) -> Values:
    """Return e_y, int64[classes]; for two classes, return ±1, int64[1]."""
    return _label_signs(classes, label) if classes == 2 else (np.arange(classes) == label).astype(np.int64)


def _add_laplace(scheme: LaplaceCopies | Laplace, row: Row, factors: Values, noise: NoiseSource) -> Values:
    units = np.array(l1_units(row, scheme.unit), dtype=np.int64)
    return np.outer(factors, units).ravel() + DiscreteLaplaceSampler(scheme.scale, noise).draw(scheme.width)


def _draw_on_sphere(cap: Cap, exponent: int, row: Row, offset: int, noise: NoiseSource) -> Values:
    """Draw PrivUnit for a unit vector that contains the scaled `row` at `offset`; draw uniformly if the row is zero."""
    inside = _uniform_bits(PROBABILITY_BITS, noise) < cap.inside

    def draw(tape: Tape) -> list[int]:
        unit = l2_unit(row)
        v = draw_uniform_point(cap.dimension, tape) if unit is None else draw_point(cap, unit, offset, inside, tape)
        return [tape.round_to_grid(number, exponent) for number in v]

    return np.array(draw_exactly(draw, noise), dtype=np.int64)


def _randomise_label(law: RandomisedLabel, label: int, noise: NoiseSource) -> int:
    """Draw the true label or another label, with probabilities proportional to integer weights."""
    limit = 2**64 - 2**64 % law.total
    while (draw := _uniform_bits(64, noise)) >= limit:
        pass
    draw %= law.total
    if draw < law.true_weight:
        return label
    wrong_label = (draw - law.true_weight) // law.other_weight
    return wrong_label + (wrong_label >= label)


def _uniform_bits(bits: int, noise: NoiseSource) -> int:
    return int.from_bytes(noise.random_words(bits // 64).astype("<u8").tobytes(), "little")
