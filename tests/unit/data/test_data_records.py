"""`check_records`: it accepts exactly the well-formed records, and its errors do not reveal records."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sottovoce.data import Records, check_records
from sottovoce.errors import DataError

SECRET = 98765.4321


def test_valid_arrays_become_float64_and_int64() -> None:
    records = check_records(np.array([[1, 2], [3, 4]], dtype=np.uint8), np.array([0, 1], dtype=np.uint8), origin="x")
    assert len(records) == 2
    assert records.features.dtype == np.float64
    assert records.features.flags.c_contiguous
    assert records.labels.dtype == np.int64
    assert records.features.tolist() == [[1, 2], [3, 4]]


def test_arrays_in_the_right_form_are_not_copied() -> None:
    features, labels = np.zeros((3, 2)), np.zeros(3, dtype=np.int64)
    records = check_records(features, labels, origin="x")
    assert np.shares_memory(records.features, features)
    assert np.shares_memory(records.labels, labels)


def test_an_agent_may_have_no_records() -> None:
    records = check_records(np.empty((0, 5)), np.array([]), features_expected=5, classes=2, origin="x")
    assert len(records) == 0
    assert records.features.shape == (0, 5)
    assert records.labels.dtype == np.int64


def test_repr_shows_no_value() -> None:
    assert repr(Records(np.full((1, 1), SECRET), np.array([7]), prepared="as is")) == "Records(prepared='as is')"


@pytest.mark.parametrize(
    "features, labels, problem",
    [
        (np.zeros(3), np.zeros(3, dtype=int), "1 dimensions"),
        (np.zeros((2, 2, 2)), np.zeros(2, dtype=int), "3 dimensions"),
        (np.zeros((2, 2)), np.zeros((2, 1), dtype=int), "2 dimensions"),
        (np.zeros((2, 2)), np.zeros(3, dtype=int), "2 rows.*3 labels"),
        (np.zeros((2, 3)), np.zeros(2, dtype=int), r"3 feature.*\b2\b"),
        (np.zeros((2, 0)), np.zeros(2, dtype=int), "feature"),
        (np.array([["a", "b"]]), np.zeros(1, dtype=int), "features.*str"),
        (np.zeros((1, 2), dtype=complex), np.zeros(1, dtype=int), "complex128"),
        (np.zeros((1, 2), dtype=object), np.zeros(1, dtype=int), "features.*object"),
        (np.zeros((2, 2)), np.zeros(2), "float64"),
        (np.zeros((2, 2)), np.array([True, False]), "labels.*bool"),
        (np.zeros((2, 2)), np.array([0, 3]), r"row 1.*\b0\b.*\b2\b"),
        (np.zeros((2, 2)), np.array([-1, 0]), "row 0"),
    ],
)
def test_malformed_arrays_are_refused(features: NDArray[Any], labels: NDArray[Any], problem: str) -> None:
    with pytest.raises(DataError, match=problem) as exc_info:
        check_records(features, labels, features_expected=2, classes=3, origin="meter.npz")
    assert str(exc_info.value).startswith("meter.npz: ")


@pytest.mark.parametrize("labels", [np.array([0, -1]), np.array([0, 2**63], dtype=np.uint64)])
def test_labels_are_bounded_even_if_the_classes_are_not_declared(labels: NDArray[Any]) -> None:
    with pytest.raises(DataError, match=r"row 1.*\b0\b"):
        check_records(np.zeros((2, 1)), labels, origin="x")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_the_first_non_finite_value_is_located_but_not_shown(bad: float) -> None:
    features = np.full((4, 3), SECRET)
    features[2, 1] = bad
    features[3, 0] = np.nan
    with pytest.raises(DataError, match=r"row 2.*column 1") as exc_info:
        check_records(features, np.zeros(4, dtype=int), origin="x")
    assert "98765" not in str(exc_info.value)
