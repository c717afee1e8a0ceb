"""Coded columns of Covertype, decoded to one-hot."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sottovoce.data import load
from sottovoce.errors import DataError

QUANTITIES = [
    [2596, 51, 3, 258, 0, 510, 221, 232, 148, 6279],
    [2804, 139, 9, 268, 65, 3180, 234, 238, 135, 6121],
]
ARRAYS: dict[str, Any] = {
    "quant": np.array(QUANTITIES),
    "wilderness": np.array([0, 3], dtype=np.uint8),
    "soil": np.array([28, 11], dtype=np.uint8),
    "y": np.array([5, 2], dtype=np.uint8),
}


def test_quantities_and_two_one_hot_codes_in_their_public_ranges(tmp_path: Path) -> None:
    np.savez(tmp_path / "cover.npz", **ARRAYS)
    data = load(f"covertype:{tmp_path}/cover.npz")
    features, bounds = data.records.features, data.bounds
    assert bounds is not None
    assert features.shape == (2, 54)
    assert data.classes == 7
    assert data.records.labels.tolist() == [4, 1]
    assert np.flatnonzero(features[1, 10:14]).tolist() == [3]
    assert np.flatnonzero(features[1, 14:]).tolist() == [11]
    assert ((features >= bounds[0]) & (features <= bounds[1])).all()


@pytest.mark.parametrize(
    "change", [{"soil": np.array([40, 1])}, {"quant": np.zeros((3, 10))}, {"wilderness": None}], ids=str
)
def test_other_columns_are_refused(tmp_path: Path, change: dict[str, NDArray[Any] | None]) -> None:
    arrays: dict[str, Any] = {name: array for name, array in {**ARRAYS, **change}.items() if array is not None}
    np.savez(tmp_path / "cover.npz", **arrays)
    with pytest.raises(DataError, match="Covertype"):
        load(f"covertype:{tmp_path}/cover.npz")
