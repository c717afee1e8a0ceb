"""`meters:FILE`: one record per meter, its mean day."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sottovoce.data import load
from sottovoce.errors import DataError


def write_meters(path: Path, **arrays: Any) -> str:
    np.savez(path / "meters.npz", **arrays)
    return f"meters:{path / 'meters.npz'}"


def test_a_profile_is_the_mean_over_days_with_readings(tmp_path: Path) -> None:
    wh = np.zeros((3, 2 * 48), dtype=np.int16)
    wh[0, 0], wh[0, 48] = 100, 300
    wh[1, 5], wh[1, 53] = 500, -1
    wh[2] = -1
    result = load(write_meters(tmp_path, wh=wh))
    profiles = result.records.features
    assert profiles.shape == (3, 48)
    assert profiles[0, 0] == pytest.approx(0.2)
    assert profiles[1, 5] == pytest.approx(0.5), "a missing reading counts for nothing"
    assert not profiles[2].any(), "values that were never read are 0"
    assert result.groups is not None
    assert result.groups.tolist() == [0, 1, 2]
    assert result.test is None


def test_days_are_records_of_their_own_with_the_day_as_window(tmp_path: Path) -> None:
    wh = np.full((2, 3 * 48), 100, dtype=np.int16)
    wh[0, 48:96] = -1  # a day without readings
    wh[1, 10:12] = -1  # an hour between equal readings
    spec = write_meters(tmp_path, wh=wh)
    result = load(f"{spec}#task=days&first=2025-01-01")
    assert result.records.windows is not None
    assert result.records.windows.tolist() == [20_089, 20_091, 20_089, 20_090, 20_091]
    assert result.groups is not None
    assert result.groups.tolist() == [0, 0, 1, 1, 1]
    np.testing.assert_allclose(result.records.features, 0.1)
    for options, word in (("task=days&first=monday", "monday"), ("first=2025-01-01", "first")):
        with pytest.raises(DataError, match=word):
            load(f"{spec}#{options}")


@pytest.mark.parametrize(
    "arrays",
    [{"X": np.zeros((2, 48))}, {"wh": np.zeros((2, 47), dtype=np.int16)}, {"wh": np.zeros((2, 48))},
     {"wh": np.zeros(48, dtype=np.int16)}, {"wh": np.zeros((2, 0), dtype=np.int16)}],
    ids=["no wh", "half a day", "floats", "one dimension", "no day"],
)  # fmt: skip
def test_an_invalid_meters_file_is_one_clear_error(tmp_path: Path, arrays: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="wh"):
        load(write_meters(tmp_path, **arrays))


def test_a_missing_file_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.npz"):
        load(f"meters:{tmp_path / 'none.npz'}")
