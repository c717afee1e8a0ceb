"""Data sets included in scikit-learn."""

import sys
from importlib.machinery import ModuleSpec

import numpy as np
import pytest
from sottovoce.data import load
from sottovoce.errors import DataError


@pytest.mark.parametrize("name, records, features, classes", [("digits", 1797, 64, 10), ("breast-cancer", 569, 30, 2)])
def test_the_declared_bounds_cover_the_published_records(name: str, records: int, features: int, classes: int) -> None:
    pytest.importorskip("sklearn", reason="scikit-learn, the demo extra, is not installed")
    data = load(name)
    assert data.name == name
    assert data.records.features.shape == (records, features)
    assert data.classes == classes
    assert set(np.unique(data.records.labels)) == set(range(classes))
    assert data.test is None
    assert data.bounds is not None
    low, high = data.bounds
    assert low.shape == high.shape == (features,)
    assert (low <= data.records.features).all()
    assert (data.records.features <= high).all()


def test_breast_cancer_bounds_are_round_numbers() -> None:
    pytest.importorskip("sklearn", reason="scikit-learn, the demo extra, is not installed")
    bounds = load("breast-cancer").bounds
    assert bounds is not None
    assert {f"{value:e}".rstrip("0123456789").rstrip("+-") for value in bounds[1]} <= {
        f"{digit}.000000e" for digit in (1, 2, 5)
    }


@pytest.mark.parametrize("name", ["digits", "breast-cancer"])
def test_they_equal_scikit_learn_s_data_sets(name: str) -> None:
    datasets = pytest.importorskip("sklearn.datasets", reason="scikit-learn, the demo extra, is not installed")
    loaded = load(name).records
    features, labels = getattr(datasets, f"load_{name.replace('-', '_')}")(return_X_y=True)
    np.testing.assert_array_equal(loaded.features, features)
    np.testing.assert_array_equal(loaded.labels, labels)


@pytest.mark.parametrize("name", ["digits", "breast-cancer"])
def test_a_scikit_learn_without_the_data_sets_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "sottovoce.data.demo.find_spec", lambda _: ModuleSpec("sklearn", None, origin="/no/__init__.py")
    )
    with pytest.raises(DataError, match="include"):
        load(name)


@pytest.mark.parametrize("name", ["digits", "breast-cancer"])
def test_without_scikit_learn_the_error_names_the_extra(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(DataError, match=r"pip install 'sottovoce\[demo\]'"):
        load(name)
