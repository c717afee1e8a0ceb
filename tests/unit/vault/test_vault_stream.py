"""Endless total published by window: each window pays once, whatever the band, and gaps remain gaps."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from sottovoce.data import Records
from sottovoce.errors import DataError, PrivacyError
from sottovoce.privacy.accounting.gaussian import gaussian_mu
from sottovoce.privacy.accounting.streams import decode
from sottovoce.privacy.accounting.units import Units
from sottovoce.privacy.api import Query, Refused, Release
from sottovoce.privacy.mechanisms.noise import NoiseSource
from sottovoce.privacy.mechanisms.stream_sum import calibrate_stream
from sottovoce.privacy.terms import build
from sottovoce.privacy.terms.streams import StreamTerms
from sottovoce.privacy.vault import Budget, Ledger, OperatingSystemNoise, SeededNoise, Vault

from tests.support.prefix_sums import largest_error

BITS, BAND, CLIP, LAST = 8, 16, 20.0, 39
COEFFICIENTS = tuple(math.floor(math.comb(2 * k, k) / 4**k * 2**BITS) for k in range(BAND))
EPSILON, DELTA = 1.0, 1e-5
EMPTY = np.empty(0)
Make = Callable[..., Vault]


def make_readings(days: int, size: int = 2) -> Records:
    """Make four readings per day."""
    generator = np.random.default_rng(3)
    readings = generator.uniform(0, 2, size=(4 * days, size))
    return Records(readings, np.zeros(4 * days, dtype=np.int64), np.repeat(np.arange(days), 4))


def make_ledger(unit: str = "window", epsilon: float | None = EPSILON) -> Ledger:
    return Ledger.in_memory("meter-17", Budget(epsilon, DELTA, unit, "add-remove"))


def make_vault(records: Records, ledger: Ledger, noise: NoiseSource | None = None, size: int = 2) -> Vault:
    terms = StreamTerms(size, CLIP, BAND, (0, LAST))
    return build(records=records, kernel=None, terms=terms, ledger=ledger, noise=noise or OperatingSystemNoise())


def ask(vault: Vault, day: int) -> Release | Refused:
    return vault.answer(Query("average", "total", day, EMPTY))


def release_values(vault: Vault, day: int) -> NDArray[np.float64]:
    answer = ask(vault, day)
    assert not isinstance(answer, Refused)
    return answer.value.astype(np.float64) * answer.step


def window_totals(records: Records) -> NDArray[np.float64]:
    assert records.windows is not None
    return np.array([records.features[records.windows == day].sum(axis=0) for day in np.unique(records.windows)])


def weighted_sum(totals: NDArray[np.float64], day: int) -> NDArray[np.float64]:
    lags = range(min(BAND, day + 1))
    parts = [COEFFICIENTS[lag] / 2**BITS * totals[day - lag] for lag in lags]
    total: NDArray[np.float64] = np.sum(parts, axis=0)
    return total


def test_an_endless_stream_costs_a_window_one_release() -> None:
    ledger = make_ledger()
    vault = make_vault(make_readings(LAST + 1), ledger)
    for day in range(LAST + 1):
        assert not isinstance(ask(vault, day), Refused)
        assert 0.999 * EPSILON < ledger.spending().epsilon <= EPSILON
    assert ledger.spending().charges == LAST + 1
    assert ledger.epsilon_spent(Units(((5, 5),))) == ledger.epsilon_spent(Units(((39, 39),)))


def test_a_release_is_the_weighted_sum_plus_noise_with_the_stated_size() -> None:
    sample = make_readings(LAST + 1)
    vault = make_vault(sample, make_ledger(), SeededNoise(5))
    errors = np.array(
        [release_values(vault, day) - weighted_sum(window_totals(sample), day) for day in range(LAST + 1)]
    )
    deviation = CLIP * math.sqrt(sum(c * c for c in COEFFICIENTS)) / 2**BITS / gaussian_mu(EPSILON, DELTA)
    assert abs(errors.std() / deviation - 1) < 0.3
    assert abs(errors.mean()) < 4 * deviation / math.sqrt(errors.size)


def test_running_totals_have_the_theoretical_error() -> None:
    sample, ledger = make_readings(LAST + 1, 1), make_ledger()
    vault = make_vault(sample, ledger, SeededNoise(4), size=1)
    steps = [ask(vault, day) for day in range(LAST + 1)]
    values = [int(step.value[0]) for step in steps if not isinstance(step, Refused)]
    unit = next(step.step for step in steps if not isinstance(step, Refused)) * 2**BITS
    result = decode(values, COEFFICIENTS) * unit
    exact = np.cumsum(window_totals(sample)[:, 0])
    expected = CLIP / gaussian_mu(EPSILON, DELTA) * largest_error("square-root", LAST + 1, BAND)
    assert 0.1 * expected < np.abs(result - exact).max() < 4 * expected
    independent = CLIP / gaussian_mu(EPSILON, DELTA) * largest_error("independent", LAST + 1)
    assert expected < 0.6 * independent


def test_an_unqueried_window_stays_out_of_later_releases() -> None:
    """It was not charged, so it is treated as if it had never been recorded."""
    full, without = make_readings(6), make_readings(6)
    assert without.windows is not None
    without = without.at(np.flatnonzero(without.windows != 3))
    answers = []
    for records in (full, without):
        vault = make_vault(records, make_ledger(), SeededNoise(9))
        answers.append([release_values(vault, day).tolist() for day in (0, 1, 2, 4, 5)])
    assert answers[0] == answers[1]


def test_the_same_window_has_the_same_answer() -> None:
    ledger = make_ledger()
    first = make_vault(make_readings(4), ledger)
    before = [release_values(first, day).tolist() for day in range(4)]
    repeated = make_vault(make_readings(4), ledger)
    assert [release_values(repeated, day).tolist() for day in range(4)] == before
    assert ledger.spending().charges == 4


def test_a_huge_or_invalid_reading_moves_a_stream_by_at_most_the_clip() -> None:
    outcomes = []
    for value in (0.0, 1e12, 1e308, -1e308):
        sample = make_readings(5)
        sample.features[8] = value  # a reading on day 2
        vault = make_vault(sample, make_ledger(), SeededNoise(2))
        outcomes.append(np.array([release_values(vault, day) for day in range(5)]))
    norm = CLIP * math.sqrt(sum(c * c for c in COEFFICIENTS[:3])) / 2**BITS
    for other in outcomes[1:]:
        assert np.linalg.norm(other - outcomes[0]) <= 2 * norm


@pytest.mark.parametrize("size", [1, 2, 500])
def test_a_device_without_readings_adds_the_same_noise(size: int) -> None:
    vault = make_vault(make_readings(0, size), make_ledger(), size=size)
    values = np.concatenate([release_values(vault, day) for day in range(30)])
    deviation = CLIP * math.sqrt(sum(c * c for c in COEFFICIENTS)) / 2**BITS / gaussian_mu(EPSILON, DELTA)
    assert 0.4 * deviation < values.std() < 2 * deviation


@pytest.mark.parametrize(
    "query",
    [
        Query("average", "total", -1, EMPTY),
        Query("average", "total", LAST + 1, EMPTY),
        Query("average", "total", 0, np.zeros(2)),
        Query("average", "gradient", 0, EMPTY),
    ],
)
def test_other_queries_are_refused_and_cost_nothing(query: Query) -> None:
    ledger = make_ledger()
    assert isinstance(make_vault(make_readings(2), ledger).answer(query), Refused)
    assert ledger.spending().charges == 0


def test_a_stream_requires_windows_and_a_budget() -> None:
    for ledger in (make_ledger("record"), make_ledger("device"), make_ledger("window", None)):
        with pytest.raises(PrivacyError, match=r"privacy\.unit=window"):
            make_vault(make_readings(2), ledger)
    with pytest.raises(DataError, match="features"):
        make_vault(make_readings(2, 3), make_ledger())


@pytest.mark.parametrize("clip, epsilon", [(0.0, 1.0), (math.nan, 1.0), (math.inf, 1.0), (1.0, 1e-9)])
def test_values_beyond_the_grid_are_refused(clip: float, epsilon: float) -> None:
    with pytest.raises(PrivacyError):
        calibrate_stream(
            clip=clip,
            size=1000,
            coefficients=COEFFICIENTS,
            bits=BITS,
            epsilon=epsilon,
            delta=DELTA,
            neighbouring="add-remove",
        )


@pytest.mark.parametrize("neighbouring, distance", [("add-remove", 1), ("replace-one", 2)])
def test_the_sensitivity_is_the_clip_times_the_column_s_norm(neighbouring: str, distance: int) -> None:
    mechanism = calibrate_stream(
        clip=1.5,
        size=3,
        coefficients=COEFFICIENTS,
        bits=BITS,
        epsilon=EPSILON,
        delta=DELTA,
        neighbouring=neighbouring,
    )
    column = math.sqrt(sum(c * c for c in COEFFICIENTS)) / 2**BITS
    stated = math.sqrt(mechanism.sensitivity_squared) * 2.0**mechanism.exponent
    assert stated == pytest.approx(distance * 1.5 * column, rel=1e-3)
    assert stated <= distance * 1.5 * column
