"""One vector for a whole device, released once."""

import numpy as np
import pytest
from sottovoce.data import Records
from sottovoce.errors import DataError, PrivacyError
from sottovoce.kernels.profile import Profile
from sottovoce.privacy.api import Query, Refused
from sottovoce.privacy.terms import build
from sottovoce.privacy.terms.means import MeanTerms
from sottovoce.privacy.vault import Budget, Ledger, SeededNoise, Vault

ASK = Query("average", "mean", 0, np.empty(0))


def vault(features: list[list[float]], epsilon: float | None = None, unit: str = "device", clip: float = 5.0) -> Vault:
    rows = np.array(features).reshape(len(features), 2)
    return build(
        records=Records(rows, np.zeros(len(rows), dtype=np.int64)),
        kernel=None,
        terms=MeanTerms("average", Profile(2, clip)),
        ledger=Ledger.in_memory("meter-17", Budget(epsilon, 1e-5, unit, "add-remove")),
        noise=SeededNoise(1),
    )


@pytest.mark.parametrize(
    "rows, vector",
    [([[1.0, 2.0], [3.0, 2.0]], [2.0, 2.0]), ([[30.0, 40.0]], [3.0, 4.0]), ([], [0.0, 0.0]), ([[1e300, 0]], [0, 0])],
    ids=["mean", "clipped", "empty", "beyond floats"],
)
def test_the_vector_is_the_clipped_mean(rows: list[list[float]], vector: list[float]) -> None:
    answer = vault(rows).answer(ASK)
    assert not isinstance(answer, Refused)
    np.testing.assert_allclose(answer.value * answer.step, vector, atol=1e-5)


def test_the_vector_is_charged_once_and_never_released_again() -> None:
    tested_vault = vault([[1.0, 2.0]], epsilon=1.0)
    first = tested_vault.answer(ASK)
    repeated = tested_vault.answer(ASK)
    assert not isinstance(first, Refused)
    assert not isinstance(repeated, Refused)
    np.testing.assert_array_equal(first.value, repeated.value)
    assert tested_vault.spending().charges == 1
    assert 0.99 < tested_vault.spending().epsilon <= 1.0
    refused = tested_vault.answer(Query("average", "mean", 1, np.empty(0)))
    assert isinstance(refused, Refused)
    assert refused.reason == "budget"
    assert (tested_vault.statement.unit, tested_vault.statement.status) == ("device", "proved")


def test_the_noise_matches_the_analytic_gaussian() -> None:
    """ALGORITHMS §7.1: 3.7306 for (1, 1e-5) at sensitivity 1."""
    terms = MeanTerms("average", Profile(2, 2.5))
    assert terms.deviation(Budget(1.0, 1e-5, "device", "add-remove"), 1) == pytest.approx(2.5 * 3.730631635, rel=1e-3)
    assert terms.deviation(Budget(1.0, 1e-5, "device", "replace-one"), 1) == pytest.approx(5 * 3.730631635, rel=1e-3)
    assert terms.deviation(Budget(None, 1e-5, "device", "add-remove"), 1) == 0


@pytest.mark.parametrize(
    "query", [Query("average", "gradient", 0, np.empty(0)), Query("average", "mean", 0, np.ones(2))]
)
def test_other_queries_are_refused(query: Query) -> None:
    answer = vault([[1.0, 2.0]]).answer(query)
    assert isinstance(answer, Refused)
    assert answer.reason == "query"


def test_smaller_units_and_other_widths_are_refused() -> None:
    with pytest.raises(PrivacyError, match=r"privacy\.unit=device"):
        vault([[1.0, 2.0]], epsilon=1.0, unit="record")
    with pytest.raises(DataError, match=r"data\.features"):
        build(
            records=Records(np.zeros((1, 3)), np.zeros(1, dtype=np.int64)),
            kernel=None,
            terms=MeanTerms("average", Profile(2, 1.0)),
            ledger=Ledger.in_memory("meter-17", Budget(None, 1e-5, "device", "add-remove")),
            noise=SeededNoise(1),
        )
