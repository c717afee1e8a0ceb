"""Readings of a day: they decide only about that day's records; otherwise a window would not bound their influence."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sottovoce.data import DataSet, Records
from sottovoce.data.forecast import HALF_HOURS, LAGS, forecast_dataset
from sottovoce.door import Query, Refused
from sottovoce.kernels.least_squares import LeastSquares
from sottovoce.vault import Budget, Ledger, SeededNoise, build
from sottovoce.vault.clipped_sum import exact_sum
from sottovoce.vault.terms.gradients import GradientTerms

from tests.support.loads import draw_half_hours

CLIP = 0.5
DAYS = 5
FIRST = 15_000 * HALF_HOURS + 17  # of half hours; not at midnight

readings = st.integers(-1, 40_000)


def prepare_records(wh: NDArray[np.int16] | NDArray[np.int64]) -> DataSet:
    return forecast_dataset(wh, FIRST, 1800, name="homes", origin="test", share=0.0)


def by_window(records: Records) -> dict[int, bytes]:
    """The bytes of each window's records, in their order."""
    assert records.windows is not None
    return {int(window): records.features[records.windows == window].tobytes() for window in np.unique(records.windows)}


def total(records: Records, point: NDArray[np.float64]) -> NDArray[np.int64]:
    """What a vault whose unit is a window sums up, without noise, in grid units."""
    kernel = LeastSquares(records.features.shape[1])
    vault = build(
        records=records,
        kernel=kernel,
        terms=GradientTerms("clipd2p", 1, CLIP, windows=(0, 10**6)),
        ledger=Ledger.in_memory("meter-17", Budget(None, 1e-5, "window", "add-remove")),
        noise=SeededNoise(1),
    )
    answer = vault.answer(Query("clipd2p", "gradient", 0, point))
    vault.close()
    assert not isinstance(answer, Refused)
    return answer.value


@given(
    meter=st.integers(0, 1),
    place=st.integers(0, DAYS * HALF_HOURS - 1),
    new=st.lists(readings, min_size=1, max_size=60),
    seed=st.integers(0, 5),
)
@settings(max_examples=80, deadline=None)
def test_readings_of_one_day_change_records_of_that_day_alone(
    meter: int, place: int, new: list[int], seed: int
) -> None:
    """Any readings: as many as one likes of one day, present, absent or absurd."""
    wh = draw_half_hours(2, DAYS, seed).astype(np.int64)
    day = (FIRST + place) // HALF_HOURS
    new = new[: (day + 1) * HALF_HOURS - FIRST - place]  # up to midnight
    changed = wh.copy()
    changed[meter, place : place + len(new)] = new[: wh.shape[1] - place]
    before, after = by_window(prepare_records(wh).records), by_window(prepare_records(changed).records)
    assert {w for w in before.keys() | after.keys() if before.get(w) != after.get(w)} <= {day}


@given(place=st.integers(0, DAYS * HALF_HOURS - 1), length=st.integers(1, HALF_HOURS), seed=st.integers(0, 3))
@settings(max_examples=15, deadline=None)
def test_without_a_days_readings_a_sum_moves_by_the_clip_at_most(place: int, length: int, seed: int) -> None:
    wh = draw_half_hours(2, DAYS, seed).astype(np.int64)
    day = (FIRST + place) // HALF_HOURS
    begin, end = max(0, day * HALF_HOURS - FIRST), (day + 1) * HALF_HOURS - FIRST
    wh[:, begin : begin + length] += 9_000  # a day that pulls hard
    without = wh.copy()
    without[:, begin:end] = -1
    point = np.random.default_rng(seed).normal(size=9) * 3
    bound = exact_sum(clip=CLIP, size=1).clip_squared
    assert bound is not None
    moved = total(prepare_records(wh).records, point) - total(prepare_records(without).records, point)
    assert sum(int(number) ** 2 for number in moved) <= bound


@given(place=st.integers(0, DAYS * HALF_HOURS - 1), new=readings)
@settings(max_examples=60, deadline=None)
def test_one_reading_is_in_as_many_records_as_is_said(place: int, new: int) -> None:
    wh = draw_half_hours(1, DAYS, 1).astype(np.int64)
    changed = wh.copy()
    changed[0, place] = new
    before, after = prepare_records(wh), prepare_records(changed)
    assert before.target is not None
    assert before.target.overlap == LAGS + 1
    gone = {row.tobytes() for row in before.records.features} - {row.tobytes() for row in after.records.features}
    assert len(gone) <= before.target.overlap
