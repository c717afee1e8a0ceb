"""Sums of one vector per record, which another package's function computes: the vault keeps its bound by itself."""

import sys
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from sottovoce.data import Records
from sottovoce.errors import PrivacyError
from sottovoce.privacy.api import Query, Refused, Release, Status
from sottovoce.privacy.terms import build
from sottovoce.privacy.terms.rows import OutsideTerms, RowSumTerms
from sottovoce.privacy.vault import Budget, Ledger, SeededNoise, Vault

Row = Callable[[NDArray[np.float64], NDArray[np.float64], int], NDArray[np.float64]]

SIZE, CLIP = 3, 0.5
BUDGETS = [Budget(2.0, 1e-5, "record", "add-remove"), Budget(2.0, 1e-5, "record", "replace-one")]


def features_as_row(point: NDArray[np.float64], features: NDArray[np.float64], label: int) -> NDArray[np.float64]:
    return features * (label + 1)


def terms(row: Row = features_as_row, releases: int = 2) -> RowSumTerms:
    return RowSumTerms("theirs", "sums", size=SIZE, clip=CLIP, releases=releases, row=row)


def make_vault(records: Records, row: Row = features_as_row, budget: Budget = BUDGETS[0], seed: int = 1) -> Vault:
    return build(
        records=records,
        kernel=None,
        terms=terms(row),
        ledger=Ledger.in_memory("meter-17", budget),
        noise=SeededNoise(seed),
    )


def draw(count: int, scale: float = 1.0) -> Records:
    generator = np.random.default_rng(count)
    return Records(generator.normal(size=(count, SIZE)) * scale, generator.integers(0, 2, count))


def query(slot: int = 0) -> Query:
    return Query("theirs", "sums", slot, np.empty(0))


def release(vault: Vault, slot: int = 0) -> Release:
    answer = vault.answer(query(slot))
    assert not isinstance(answer, Refused), answer
    return answer


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e300])
def test_a_record_moves_the_sum_by_at_most_the_clip(scale: float) -> None:
    records = draw(40, scale)
    whole = release(make_vault(records))
    for left_out in (0, 17, 39):
        without = release(make_vault(records.at(np.delete(np.arange(40), left_out))))
        assert np.linalg.norm((whole.value - without.value) * whole.step) <= CLIP
    assert np.linalg.norm(whole.value * whole.step) > 0


def test_the_order_of_records_changes_nothing() -> None:
    records = draw(40)
    assert (release(make_vault(records)).value == release(make_vault(records.at(np.arange(40)[::-1]))).value).all()


@pytest.mark.parametrize("budget", BUDGETS)
def test_the_statement_is_proved_and_the_ledger_stops_at_the_budget(budget: Budget) -> None:
    vault = make_vault(draw(5), budget=budget)
    assert vault.statement.status is Status.PROVED
    assert (vault.statement.epsilon, vault.statement.neighbouring) == (2.0, budget.neighbouring)
    for slot in range(2):
        release(vault, slot)
    assert (vault.spending().epsilon or 0.0) <= 2.0
    refusal = vault.answer(query(2))
    assert isinstance(refusal, Refused)
    assert refusal.reason == "budget"


@pytest.mark.parametrize(
    "returned",
    [
        pytest.param(lambda point, features, label: 1 / 0, id="fails"),
        pytest.param(lambda point, features, label: np.full(SIZE, np.nan), id="not a number"),
        pytest.param(lambda point, features, label: np.zeros(SIZE + 1), id="another shape"),
        pytest.param(lambda point, features, label: "a text", id="no numbers"),
        pytest.param(lambda point, features, label: np.full(SIZE, 1j), id="complex"),
        pytest.param(lambda point, features, label: sys.exit("seven"), id="exits"),
    ],
)
def test_a_row_that_cannot_be_computed_counts_as_zero(returned: Row) -> None:
    """An error or another length would tell that such a record is there."""

    def row(point: NDArray[np.float64], features: NDArray[np.float64], label: int) -> NDArray[np.float64]:
        return returned(point, features, label) if features[0] == 7.0 else features

    plain, strange = draw(9), draw(9)
    strange = Records(np.vstack([strange.features, np.full(SIZE, 7.0)]), np.append(strange.labels, 0))
    assert (release(make_vault(plain, row)).value == release(make_vault(strange, row)).value).all()


def test_a_row_cannot_change_the_records_or_the_point() -> None:
    def row(point: NDArray[np.float64], features: NDArray[np.float64], label: int) -> NDArray[np.float64]:
        features += 1
        return features

    records = draw(6)
    before = records.features.copy()
    vault = make_vault(records, row)
    release(vault, 0)
    assert (records.features == before).all()


@pytest.mark.parametrize(
    "asked",
    [Query("theirs", "gradient", 0, np.empty(0)), Query("theirs", "sums", 0, np.zeros(1)), query(-1), query(2)],
)
def test_other_queries_are_refused_before_a_record_is_read(asked: Query) -> None:
    def row(point: NDArray[np.float64], features: NDArray[np.float64], label: int) -> NDArray[np.float64]:
        raise AssertionError("a record was read")

    vault = make_vault(draw(3), row)
    assert isinstance(vault.answer(asked), Refused)
    assert vault.spending().charges == 0


def test_a_larger_unit_is_refused() -> None:
    with pytest.raises(PrivacyError, match=r"privacy\.unit"):
        make_vault(draw(3), budget=Budget(2.0, 1e-5, "device", "add-remove"))


def test_terms_that_a_package_enforces_itself_prove_nothing() -> None:
    vault = build(
        records=draw(5),
        kernel=None,
        terms=OutsideTerms(terms(), "theirs 1.0"),
        ledger=Ledger.in_memory("meter-17", BUDGETS[0]),
        noise=SeededNoise(1),
    )
    assert vault.statement.status is Status.NOT_PROVED
    assert "theirs 1.0" in vault.statement.reason
