"""Every vault mechanism as applied, with the operating system's noise, against its law, including the tails.

A million draws; each test fails by chance once in ten million runs. A point of PrivUnit takes up to a millisecond, so
only three thousand points are drawn.
"""

import inspect
import math
import os
from collections.abc import Callable
from importlib import import_module
from pkgutil import walk_packages

import numpy as np
import pytest
import sottovoce.privacy
from numpy.typing import NDArray
from scipy.special import bdtr, bdtrc, betainc, gammaincc, log_ndtr, ndtr
from sottovoce.data import Records
from sottovoce.privacy.cell import Cell
from sottovoce.privacy.mechanisms.bounded_point import BoundedPoint
from sottovoce.privacy.mechanisms.cell_sum import CellMechanism
from sottovoce.privacy.mechanisms.clipped_sum import DiscreteGaussian
from sottovoce.privacy.mechanisms.pure_sum import PureSum
from sottovoce.privacy.mechanisms.record_mechanism import RecordMechanism
from sottovoce.privacy.perturbation import LabelledPrivUnit, PrivUnit, scheme
from sottovoce.privacy.vault import OperatingSystemNoise

pytestmark = pytest.mark.statistical

DRAWS = 1_000_000
ALPHA = 1e-7
POINTS = 3000
SIGMA, SCALE = 50_000, 30_000

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_NO_NOISE = {"Exact", "PublicDecision"}
_CHARGED_AS_INFINITE = {"PublishedGaussian", "UnprovedPoint"}


def fits(
    values: Ints, spread: tuple[float, float], below: Callable[[Floats], Floats], tails: list[int], beyond: list[float]
) -> None:
    """Run Pearson's test in a thousand equally probable cells, test the spread, and count the draws beyond each tail.

    Pearson's test alone misses noise that is 1 % too small half the time; the spread finds it, at 10 standard
    deviations or more of its own.

    Args:
        values: int64[n], draws from a symmetric law.
        spread: the mean of what measures the spread of each draw, as a ratio to what it should be, and the standard
            deviation that this ratio has over n draws.
        below: its cumulative distribution, at halves between integers.
        tails: where tails begin.
        beyond: the probability of each, both sides together.
    """
    counts = np.histogram(below(values.astype(np.float64)), bins=1000, range=(0, 1))[0]
    expected = len(values) / 1000
    assert gammaincc(999 / 2, float(((counts - expected) ** 2).sum()) / expected / 2) > ALPHA
    ratio, deviation = spread
    assert 2 * ndtr(-abs(ratio - 1) / deviation) > ALPHA, ratio
    for index, chance in zip(tails, beyond, strict=True):
        result = int((abs(values) > index).sum())
        assert min(bdtr(result, len(values), chance), bdtrc(result - 1, len(values), chance)) > ALPHA / 2, (
            index,
            result,
        )


def fits_gaussian(values: Ints, sigma: int) -> None:
    """Test the discrete Gaussian, out to 4.8 σ."""
    cuts = [1.0, 2.0, 3.0, 3.5, 4.0, 4.4, 4.8]
    positions = [math.floor(cut * sigma) for cut in cuts]
    fits(
        values,
        (float(np.square(values / sigma).mean()), math.sqrt(2 / len(values))),
        lambda x: ndtr(x / sigma),
        positions,
        [2 * math.exp(log_ndtr(-(at + 0.5) / sigma)) for at in positions],
    )


def fits_laplace(values: Ints, scale: int) -> None:
    """Test the discrete Laplace law, out to 12 scales."""
    positions = [math.floor(cut * scale) for cut in (1, 2, 4, 8, 10, 12)]
    fits(
        values,
        (float(np.abs(values / scale).mean()), math.sqrt(1 / len(values))),
        lambda x: np.where(x < 0, np.exp(x / scale) / 2, 1 - np.exp(-x / scale) / 2),
        positions,
        [math.exp(-(at + 0.5) / scale) for at in positions],
    )


def gaussian() -> None:
    """Test sums of clipped gradients."""
    fits_gaussian(DiscreteGaussian(DRAWS, -10, 4, 4, SIGMA).apply(iter([]), OperatingSystemNoise()), SIGMA)


def point() -> None:
    """Test the ends of chains."""
    fits_gaussian(BoundedPoint(DRAWS, -10, 4, SIGMA).apply(np.zeros(DRAWS), OperatingSystemNoise()), SIGMA)


def laplace_sum() -> None:
    """Test one-vs-all gradients, copy by copy."""
    mechanism = PureSum(1, DRAWS, -20, "copies", SCALE, 2**21 / SCALE)
    fits_laplace(mechanism.apply(iter([]), OperatingSystemNoise())[:-1], SCALE)


def k_norm() -> None:
    """Test one-vs-all gradients, all copies of a feature at once: the largest of c numbers follows Gamma(c + 1)."""
    copies = 3
    mechanism = PureSum(copies, DRAWS, -20, "joint", SCALE, 2**21 / SCALE)
    rows = mechanism.apply(iter([]), OperatingSystemNoise())[:-1].reshape(copies, DRAWS)
    largest = np.abs(rows).max(axis=0)
    shares = np.histogram(1 - gammaincc(copies, (largest + 0.5) / SCALE), bins=1000, range=(0, 1))[0]
    assert gammaincc(999 / 2, float(((shares - DRAWS / 1000) ** 2).sum()) / (DRAWS / 1000) / 2) > ALPHA
    for cut in (4, 8, 12, 16, 20):  # draws that are 1 % smaller move the first count by 13 standard deviations
        result, chance = int((largest > cut * SCALE).sum()), float(gammaincc(copies, cut + 0.5 / SCALE))
        assert min(bdtr(result, DRAWS, chance), bdtrc(result - 1, DRAWS, chance)) > ALPHA / 2, (cut, result)
    signs = (rows > 0).sum(axis=1)
    assert np.abs(signs - DRAWS / 2).max() < 6 * math.sqrt(DRAWS) / 2


def laplace_record() -> None:
    """Test a published record with the Laplace law."""
    features = DRAWS // 10
    law = scheme("laplace", features, 10, 1.0)
    row = Records(np.zeros((1, features)), np.array([3]))
    fits_laplace(RecordMechanism(law).apply(row, OperatingSystemNoise()), law.scale)  # type: ignore[attr-defined]


def priv_unit_record() -> None:
    """Test a record's points by ⟨V, u⟩: the frequency in the cap, and the spread in and outside it as on a sphere."""
    law = scheme("privunit", 4, 2, 2.0)
    assert isinstance(law, PrivUnit)
    row = np.array([1.0, -2.0, 3.0, 0.5])
    record, mechanism = Records(row[np.newaxis], np.array([1])), RecordMechanism(law)
    released = np.array([mechanism.apply(record, OperatingSystemNoise()) for _ in range(POINTS)])
    _fits_cap(law.cap, released * 2.0**law.exponent @ row / math.sqrt(float(row @ row)))


def labelled_record() -> None:
    """Test a record with a separately released label, whose frequency follows randomised response."""
    law = scheme("krr-privunit", 4, 3, 6.0)
    assert isinstance(law, LabelledPrivUnit)
    row = np.array([1.0, -2.0, 3.0, 0.5])
    record, mechanism = Records(row[np.newaxis], np.array([2])), RecordMechanism(law)
    released = np.array([mechanism.apply(record, OperatingSystemNoise()) for _ in range(POINTS)])
    true, chance = int((released[:, 0] == 2).sum()), law.label.true_weight / law.label.total
    assert min(bdtr(true, POINTS, chance), bdtrc(true - 1, POINTS, chance)) > ALPHA / 2
    _fits_cap(law.cap, released[:, 1:] * 2.0**law.exponent @ row / math.sqrt(float(row @ row)))


def _fits_cap(cap, heights: Floats) -> None:  # type: ignore[no-untyped-def]
    half = (cap.dimension - 1) / 2
    full, edge = betainc(half, half, (1 + np.clip(heights, -1, 1)) / 2), betainc(half, half, (1 + cap.gamma) / 2)
    rest = 1 - cap.probability
    share = np.where(full < edge, rest * full / edge, rest + cap.probability * (full - edge) / (1 - edge))
    counts = np.histogram(share, bins=60, range=(0, 1))[0]
    expected = POINTS / 60
    assert gammaincc(59 / 2, float(((counts - expected) ** 2).sum()) / expected / 2) > ALPHA


def cell() -> None:
    """Test a member's share of the noise, in the smallest roster and in the largest."""
    for members in (8, 40):
        mechanism = CellMechanism(Cell(8, 40, 1, 0.7), 1, DRAWS, -20, 2**40, 2**40, 400_000)
        fits_gaussian(mechanism.apply(iter([]), members, OperatingSystemNoise()), mechanism.share(members))


FITS: dict[str, Callable[[], None]] = {
    "DiscreteGaussian": gaussian,
    "BoundedPoint": point,
    "CellMechanism": cell,
    "PureSum copies": laplace_sum,
    "PureSum joint": k_norm,
    "RecordMechanism laplace": laplace_record,
    "RecordMechanism privunit": priv_unit_record,
    "RecordMechanism krr-privunit": labelled_record,
}


@pytest.mark.parametrize("name", FITS)
def test_a_release_follows_its_law(name: str) -> None:
    FITS[name]()


def _apply_to_nothing(mechanism: str, size: int) -> tuple[Ints, float]:
    """Return the noisy numbers of a release of nothing, int64[size], and the variance that they should have."""
    noise = OperatingSystemNoise()
    match mechanism:
        case "DiscreteGaussian":
            return DiscreteGaussian(size, -10, 4, 4, SIGMA).apply(iter([]), noise), SIGMA**2
        case "BoundedPoint":
            return BoundedPoint(size, -10, 4, SIGMA).apply(np.zeros(size), noise), SIGMA**2
        case "CellMechanism":
            shared = CellMechanism(Cell(8, 40, 1, 0.7), 1, size, -20, 2**40, 2**40, 400_000)
            return shared.apply(iter([]), 8, noise), shared.share(8) ** 2
        case "PureSum copies":
            return PureSum(1, size, -20, "copies", SCALE, 2**21 / SCALE).apply(iter([]), noise)[:-1], 2 * SCALE**2
    copies = 3
    joint = PureSum(copies, size, -20, "joint", SCALE, 2**21 / SCALE)
    return joint.apply(iter([]), noise)[:-1], (copies + 1) * (copies + 2) / 3 * SCALE**2


def every_number_has_its_own_noise(mechanism: str) -> None:
    """Check the spread of each number over many releases, and of their sum, which is larger if draws are shared.

    A mean square of 256 numbers is off by a factor of 2 with probability e^-30 for the Laplace laws, and less for the
    others. That of a million numbers in one release would hide a single number without noise.
    """
    for size in (1, 2, 301, 1000):
        drawn = [_apply_to_nothing(mechanism, size) for _ in range(256)]
        values, variance = np.array([numbers for numbers, _ in drawn], dtype=np.float64), drawn[0][1]
        spread = (values**2).mean(axis=0) / variance
        assert ((spread > 0.4) & (spread < 2.5)).all(), (size, np.flatnonzero((spread <= 0.4) | (spread >= 2.5)))
        assert 0.4 < (values.sum(axis=1) ** 2).mean() / values.shape[1] / variance < 2.5, size


@pytest.mark.parametrize("mechanism", [name for name in FITS if not name.startswith("RecordMechanism")])
def test_every_number_of_a_release_has_its_own_noise(mechanism: str) -> None:
    every_number_has_its_own_noise(mechanism)


def test_every_mechanism_is_tested() -> None:
    modules = [import_module(found.name) for found in walk_packages(sottovoce.privacy.__path__, "sottovoce.privacy.")]
    named = {
        name
        for module in modules
        for name, member in inspect.getmembers(module, inspect.isclass)
        if member.__module__ == module.__name__ and "apply" in vars(member) and name != "Mechanism"
    }
    assert named - _NO_NOISE - _CHARGED_AS_INFINITE == {name.split()[0] for name in FITS}


def noise_is_the_operating_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that every word of a device's noise comes from os.urandom, in order."""
    inputs: list[bytes] = []

    def urandom(count: int) -> bytes:
        inputs.append(os.getrandom(count))
        return inputs[-1]

    monkeypatch.setattr("os.urandom", urandom)
    words = [OperatingSystemNoise().random_words(count) for count in (1, 7, 4096)]
    assert b"".join(inputs) == b"".join(drawn.astype("<u8").tobytes() for drawn in words)


def test_a_device_s_noise_comes_from_the_operating_system(monkeypatch: pytest.MonkeyPatch) -> None:
    noise_is_the_operating_systems(monkeypatch)
