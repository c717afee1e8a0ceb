"""Sums in units of a varying threshold: sensitivity exactly 1, for any requested threshold."""

import numpy as np
import pytest
from sottovoce.data import Records
from sottovoce.errors import PrivacyError
from sottovoce.kernels.decentralised.clipping import Rule
from sottovoce.kernels.softmax import Softmax
from sottovoce.privacy.api import Query, Refused
from sottovoce.privacy.terms import build
from sottovoce.privacy.terms.gradients import GradientTerms, NormalisedTerms
from sottovoce.privacy.vault import Budget, Ledger, SeededNoise, Vault

KERNEL = Softmax(3, 2)
HOSTILE = [1e-300, 1e-3, 0.5, 1.0, 1e3, 1e300]


def vault(
    records: Records, rule: Rule, epsilon: float | None = None, unit: str = "record", sampling: str = "full"
) -> Vault:
    sums = GradientTerms("adad2p", 4, 1.0, sampling=sampling, batch=2, of=8)  # type: ignore[arg-type]
    return build(
        records=records,
        kernel=KERNEL,
        terms=NormalisedTerms(sums, rule),
        ledger=Ledger.in_memory("meter-17", Budget(epsilon, 1e-5, unit, "add-remove")),
        noise=SeededNoise(1),
    )


def draw_records(count: int, scale: float = 1.0, windows: bool = False) -> Records:
    rng = np.random.default_rng(count)
    numbers = np.arange(count) // 2 if windows else None
    return Records(rng.normal(size=(count, 3)) * scale, rng.integers(0, 2, count), numbers)


def total(records: Records, rule: Rule, threshold: float, unit: str = "record") -> tuple[np.ndarray, float]:
    answer = vault(records, rule, unit=unit).answer(query(threshold))
    assert not isinstance(answer, Refused)
    return answer.value, answer.step


def query(threshold: float, slot: int = 0) -> Query:
    return Query("adad2p", "gradient", slot, np.append(np.full(6, 0.3), threshold))


@pytest.mark.parametrize("rule", ["decay", "quantile", "automatic"])
@pytest.mark.parametrize("threshold", HOSTILE)
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e200])
def test_one_record_moves_the_sum_by_at_most_one(rule: Rule, threshold: float, scale: float) -> None:
    records = draw_records(9, scale)
    full, step = total(records, rule, threshold)
    rest, _ = total(records.at(np.arange(8)), rule, threshold)
    alone, _ = total(records.at(np.array([8])), rule, threshold)
    np.testing.assert_array_equal(full - rest, alone)
    assert sum(int(number) ** 2 for number in alone) * step**2 <= 1


@pytest.mark.parametrize("unit, rows", [("window", 2), ("device", 1)])
def test_larger_units_are_normalised_as_a_whole(unit: str, rows: int) -> None:
    value, step = total(draw_records(4, 50.0, windows=True), "decay", 1e-3, unit)
    assert 0 < np.linalg.norm(value * step) <= rows


def test_the_charge_does_not_depend_on_the_threshold() -> None:
    tested_vault = vault(draw_records(9), "quantile", epsilon=2.0)
    for slot, threshold in enumerate(HOSTILE[:4]):
        assert not isinstance(tested_vault.answer(query(threshold, slot)), Refused)
    assert tested_vault.spending().epsilon == pytest.approx(2.0, rel=1e-2)
    assert tested_vault.spending().epsilon <= 2.0
    assert isinstance(tested_vault.answer(query(1.0, 4)), Refused)
    assert "in units of a threshold" in tested_vault.statement.mechanism
    assert tested_vault.statement.status == "proved"


@pytest.mark.parametrize("threshold", [0.0, -1.0, np.nan, np.inf])
def test_an_invalid_threshold_is_refused(threshold: float) -> None:
    tested_vault = vault(draw_records(9), "decay", epsilon=2.0)
    answer = tested_vault.answer(query(threshold))
    assert isinstance(answer, Refused)
    assert answer.reason == "query"
    assert tested_vault.spending().charges == 0


def test_a_point_without_a_threshold_is_refused() -> None:
    answer = vault(draw_records(9), "decay").answer(Query("adad2p", "gradient", 0, np.zeros(6)))
    assert isinstance(answer, Refused)


def test_random_batches_bound_a_record_and_no_larger_unit() -> None:
    tested_vault = vault(draw_records(8), "quantile", epsilon=2.0, sampling="poisson")
    assert "Poisson" in tested_vault.statement.mechanism
    assert not isinstance(tested_vault.answer(query(0.5)), Refused)
    with pytest.raises(PrivacyError, match="record"):
        vault(draw_records(8), "quantile", epsilon=2.0, unit="device", sampling="poisson")
