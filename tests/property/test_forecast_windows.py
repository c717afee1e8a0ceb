"""Day's readings: they change only that day's records; otherwise a window would not bound their influence."""

import numpy as np
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray
from sottovoce.data import DataSet, Records
from sottovoce.data.forecast import HALF_HOURS, LAGS, forecast_table
from sottovoce.kernels.least_squares import LeastSquares
from sottovoce.privacy.api import Query, Refused
from sottovoce.privacy.mechanisms.clipped_sum import exact_sum
from sottovoce.privacy.terms import build
from sottovoce.privacy.terms.gradients import GradientTerms
from sottovoce.privacy.vault import Budget, Ledger, SeededNoise

from tests.support.loads import draw_half_hours

CLIP = 0.5
DAYS = 5
FIRST = 15_000 * HALF_HOURS + 17  # of half hours; not at midnight

readings = st.integers(-1, 40_000)


def prepare_records(wh: NDArray[np.int16] | NDArray[np.int64]) -> DataSet:
    return forecast_table(wh, FIRST, 1800, name="homes", origin="test", share=0.0).dataset()


def group_by_window(records: Records) -> dict[int, bytes]:
    """Return the bytes of each window's records, in order."""
    assert records.windows is not None
    return {int(window): records.features[records.windows == window].tobytes() for window in np.unique(records.windows)}


def released_sum(records: Records, point: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the noise-free sum, in grid units, of a vault whose privacy unit is a window."""
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
    index=st.integers(0, DAYS * HALF_HOURS - 1),
    new=st.lists(readings, min_size=1, max_size=60),
    seed=st.integers(0, 5),
)
@settings(max_examples=80, deadline=None)
def test_readings_change_only_their_own_day_s_records(meter: int, index: int, new: list[int], seed: int) -> None:
    """Replace any number of one day's readings with valid, missing or absurd values."""
    wh = draw_half_hours(2, DAYS, seed).astype(np.int64)
    day = (FIRST + index) // HALF_HOURS
    new = new[: (day + 1) * HALF_HOURS - FIRST - index]  # up to midnight
    changed = wh.copy()
    changed[meter, index : index + len(new)] = new[: wh.shape[1] - index]
    before, after = group_by_window(prepare_records(wh).records), group_by_window(prepare_records(changed).records)
    assert {w for w in before.keys() | after.keys() if before.get(w) != after.get(w)} <= {day}


@given(index=st.integers(0, DAYS * HALF_HOURS - 1), length=st.integers(1, HALF_HOURS), seed=st.integers(0, 3))
@settings(max_examples=15, deadline=None)
def test_removing_a_day_moves_the_sum_by_at_most_the_clip(index: int, length: int, seed: int) -> None:
    wh = draw_half_hours(2, DAYS, seed).astype(np.int64)
    day = (FIRST + index) // HALF_HOURS
    begin, end = max(0, day * HALF_HOURS - FIRST), (day + 1) * HALF_HOURS - FIRST
    wh[:, begin : begin + length] += 9_000  # makes the day's gradient large
    without = wh.copy()
    without[:, begin:end] = -1
    point = np.random.default_rng(seed).normal(size=9) * 3
    bound = exact_sum(clip=CLIP, size=1).clip_squared
    assert bound is not None
    difference = released_sum(prepare_records(wh).records, point) - released_sum(
        prepare_records(without).records, point
    )
    assert sum(int(number) ** 2 for number in difference) <= bound


@given(index=st.integers(0, DAYS * HALF_HOURS - 1), new=readings)
@settings(max_examples=60, deadline=None)
def test_a_reading_appears_in_at_most_the_stated_number_of_records(index: int, new: int) -> None:
    wh = draw_half_hours(1, DAYS, 1).astype(np.int64)
    changed = wh.copy()
    changed[0, index] = new
    before, after = prepare_records(wh), prepare_records(changed)
    assert before.target is not None
    assert before.target.overlap == LAGS + 1
    rows_before, rows_after = ({row.tobytes() for row in data.records.features} for data in (before, after))
    assert len(rows_before - rows_after) <= before.target.overlap
