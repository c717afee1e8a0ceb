"""Replacement of a record: it moves a gradient sum by at most 2, in the norm of the noise that is charged."""

import numpy as np
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray
from sottovoce.data import Records
from sottovoce.privacy.api import Query, Refused
from sottovoce.privacy.mechanisms.pure_sum import bound_to_grid
from sottovoce.privacy.terms import build
from sottovoce.privacy.vault import Budget, Ledger, SeededNoise
from sottovoce_papers.hegedus_2017.gradient_walk.private.terms import WalkTerms

EPSILON = 1.0


def release(records: Records, point: NDArray[np.float64], classes: int, model: str, law: str) -> NDArray[np.int64]:
    """Return the vault's release with one seed's noise, int64[copies, d]."""
    ledger = Ledger.in_memory("meter-17", Budget(EPSILON, 1e-5, "record", "replace-one"))
    features = records.features.shape[1]
    terms = WalkTerms("gradient-walk", model, features, classes, (EPSILON,), law, "declared")  # type: ignore[arg-type]
    vault = build(records=records, kernel=None, terms=terms, ledger=ledger, noise=SeededNoise(3))
    answer = vault.answer(Query("gradient-walk", "gradient", 0, point))
    vault.close()
    assert not isinstance(answer, Refused)
    assert answer.value[-1] == len(records)
    unit = round(1 / answer.step)
    assert unit == 2 ** (16 + max(0, (features - 1).bit_length()))
    return answer.value[:-1].reshape(-1, features)


@given(
    features=st.integers(1, 70),
    classes=st.integers(2, 12),
    count=st.integers(1, 200),
    scale=st.sampled_from([1e-300, 1e-3, 1.0, 1e3, 1e200]),
    size=st.sampled_from([0.0, 1.0, 1e3, 1e15]),
    model=st.sampled_from(["pegasos", "logistic"]),
    law=st.sampled_from(["joint", "copies"]),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=80, deadline=None)
def test_replacing_a_record_moves_the_release_by_at_most_the_charge(
    features: int, classes: int, count: int, scale: float, size: float, model: str, law: str, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    copies = 1 if classes == 2 else classes
    point = rng.normal(size=copies * features) * size
    records = Records(rng.normal(size=(count, features)) * scale, rng.integers(0, classes, count))
    rows, labels = records.features.copy(), records.labels.copy()
    index = int(rng.integers(0, count))
    rows[index] = rng.normal(size=features) * rng.choice([0.0, 1.0, 1e100])
    labels[index] = rng.integers(0, classes)
    difference = release(records, point, classes, model, law) - release(
        Records(rows, labels), point, classes, model, law
    )
    unit = 2 ** (16 + max(0, (features - 1).bit_length()))
    assert sum(int(number) for number in np.abs(difference).max(axis=0)) <= 2 * unit, (
        "Σ_j max_k, what `joint` is charged for"
    )
    assert all(sum(map(int, copy)) <= 2 * unit for copy in np.abs(difference)), (
        "each copy, what `copies` is charged for"
    )


@given(st.integers(3, 12))
@settings(max_examples=10, deadline=None)
def test_extremal_records_attain_the_bounds(classes: int) -> None:
    """Use the zero model and records without a common feature: 2c in L1 over all copies, 2 in the joint norm."""
    first, second = (Records(np.array([row]), np.array([0])) for row in ([1.0, 0.0], [0.0, 1.0]))
    point = np.zeros(2 * classes)
    difference = release(first, point, classes, "pegasos", "joint") - release(
        second, point, classes, "pegasos", "joint"
    )
    unit = 2**17
    assert np.abs(difference).sum() == 2 * classes * unit
    assert np.abs(difference).max(axis=0).sum() == 2 * unit


@given(
    st.integers(1, 12),
    st.integers(1, 40),
    st.sampled_from([1e-9, 0.1, 1.0, 1 + 1e-9, 7.0, 1e30, 1e308, np.inf, np.nan]),
    st.integers(0, 2**32),
)
@settings(max_examples=150, deadline=None)
def test_rows_of_any_length_stay_within_the_bound(copies: int, features: int, length: float, seed: int) -> None:
    rows = np.random.default_rng(seed).normal(size=(3, copies, features))
    with np.errstate(all="ignore"):
        rows[1] *= length / np.abs(rows[1]).max(axis=0).sum()
    units = bound_to_grid(rows, -20)
    separately = np.concatenate([bound_to_grid(row[np.newaxis], -20) for row in rows])
    assert np.array_equal(units, separately), "each row is processed independently"
    assert (np.abs(units).max(axis=1).sum(axis=1) <= 2**20).all()
    if length <= 1:
        assert np.array_equal(units[1], np.trunc(rows[1] * 2**20)), "rows within the bound are only rounded"
