"""Gradients at visits: always noisy, never beyond the budget, and never under another law."""

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sottovoce.data import Records
from sottovoce.errors import DataError, LedgerError, PrivacyError
from sottovoce.privacy.accounting.events import PureRelease
from sottovoce.privacy.api import Query, Refused, Release, Status
from sottovoce.privacy.mechanisms.pure_sum import PureSum, calibrate_pure_sum
from sottovoce.privacy.terms import build
from sottovoce.privacy.vault import Budget, Ledger, SeededNoise, Vault
from sottovoce_papers.hegedus_2017.gradient_walk.private.terms import WalkTerms
from sottovoce_papers.hegedus_2017.gradient_walk.visits import visit_epsilons

FEATURES, CLASSES, COUNT = 3, 4, 12
SIZE = FEATURES * CLASSES
RNG = np.random.default_rng(7)
RECORDS = Records(RNG.normal(size=(COUNT, FEATURES)), RNG.integers(0, CLASSES, COUNT))


def make_terms(**changes: Any) -> WalkTerms:
    defaults: dict[str, Any] = {
        "learner": "gradient-walk",
        "model": "pegasos",
        "features": FEATURES,
        "classes": CLASSES,
        "epsilons": visit_epsilons("k-times", 3, 2.0),
        "law": "joint",
        "scaling": "declared",
    }
    return WalkTerms(**{**defaults, **changes})


def make_ledger(epsilon: float | None = 2.0, neighbouring: str = "replace-one") -> Ledger:
    return Ledger.in_memory("meter-17", Budget(epsilon, 1e-5, "record", neighbouring))


def make_vault(
    ledger: Ledger | None = None, terms: WalkTerms | None = None, *, seed: int = 1, records: Records = RECORDS
) -> Vault:
    return build(
        records=records,
        kernel=None,
        terms=terms or make_terms(),
        ledger=ledger or make_ledger(),
        noise=SeededNoise(seed),
    )


def ask(slot: int, point: NDArray[np.float64] | None = None) -> Query:
    return Query("gradient-walk", "gradient", slot, np.zeros(SIZE) if point is None else point)


def get_release(vault: Vault, query: Query) -> Release:
    answer = vault.answer(query)
    assert not isinstance(answer, Refused), answer
    return answer


def reference_sum(point: NDArray[np.float64], model: str, records: Records = RECORDS) -> NDArray[np.float64]:
    """Return -Σ of loss gradients for records with L1 length 1, one number at a time, from the paper."""
    weights, total = point.reshape(CLASSES, FEATURES), np.zeros((CLASSES, FEATURES))
    for row, label in zip(records.features, records.labels, strict=True):
        x = row / sum(abs(number) for number in row)
        for k in range(CLASSES):
            y = 1.0 if k == label else -1.0
            margin = y * sum(weights[k][j] * x[j] for j in range(FEATURES))
            slope = float(margin < 1) if model == "pegasos" else 1 - 1 / (1 + math.exp(-margin))
            total[k] += slope * y * x
    return total.ravel()


@pytest.mark.parametrize("model", ["pegasos", "logistic"])
def test_without_noise_the_result_is_the_gradient_and_the_number_of_records(model: str) -> None:
    point = np.random.default_rng(1).normal(size=SIZE) * 5
    exact = make_terms(model=model, epsilons=(math.inf,))
    answer = get_release(make_vault(make_ledger(None), exact), ask(0, point))
    assert answer.value.shape == (SIZE + 1,)
    assert answer.value[-1] == COUNT
    np.testing.assert_allclose(answer.value[:-1] * answer.step, reference_sum(point, model), atol=COUNT * answer.step)
    assert answer.statement.status == Status.NONE
    assert answer.statement.epsilon is None


@pytest.mark.parametrize("law, factor", [("joint", 1), ("copies", CLASSES)])
@pytest.mark.parametrize("visits", [1, 10])
def test_noise_has_the_equations_scale(law: str, factor: int, visits: int) -> None:
    """For the sum, 2c/ε_r in the paper variant, 2/ε_r jointly; for the mean of n, 2c/(n ε) once, 2c/ε with k = n."""
    for epsilon in visit_epsilons("k-times", visits, 2.0):
        mechanism = calibrate_pure_sum(
            copies=CLASSES,
            features=FEATURES,
            law=law,  # type: ignore[arg-type]
            epsilon=epsilon,
            charged_epsilon=epsilon,
        )
        assert mechanism.scale / mechanism.unit == pytest.approx(2 * factor * visits / 2.0, rel=1e-4)
        assert mechanism.event.sensitivity == 2 * factor * mechanism.unit
        assert mechanism.event.sensitivity <= mechanism.scale * epsilon


def test_two_classes_have_a_single_law() -> None:
    """With one copy, the paper's noise and the joint noise are equal."""
    laws = [
        calibrate_pure_sum(copies=1, features=9, law=law, epsilon=0.7, charged_epsilon=0.7)
        for law in ("joint", "copies")
    ]
    assert len({(item.scale, item.exponent) for item in laws}) == 1
    spreads = []
    for item in laws:
        drawn = [item.apply(iter([np.zeros((1, 9))]), SeededNoise(seed))[:-1] / item.unit for seed in range(400)]
        spreads.append(np.mean(np.abs(drawn)))
    assert spreads == pytest.approx([2 / 0.7] * 2, rel=0.06)


@pytest.mark.parametrize("law", ["joint", "copies"])
def test_noise_is_added_whether_or_not_hinges_are_active(law: str) -> None:
    """The noise is the same whatever the sum, even at a model that classifies every record with a wide margin."""
    one = Records(np.array([[0.5, 0.25, 0.25]]), np.array([1]))
    far = np.full((CLASSES, FEATURES), -1e6)
    far[1] = 1e6
    noise = []
    for point in (np.zeros(SIZE), far.ravel()):
        answer = get_release(make_vault(terms=make_terms(law=law), records=one), ask(0, point))
        exact = np.rint(reference_sum(point, "pegasos", one) / answer.step).astype(np.int64)
        assert exact.any() == (not point.any())
        noise.append((answer.value[:-1] - exact).tolist())
    assert noise[0] == noise[1]
    assert all(noise[0])


def test_an_unscheduled_visit_is_refused_and_the_budget_is_never_exceeded() -> None:
    ledger = make_ledger()
    vault = make_vault(ledger)
    for slot in range(3):
        get_release(vault, ask(slot))
        assert ledger.spending().epsilon == pytest.approx(2.0 * (slot + 1) / 3)
        assert ledger.spending().epsilon <= 2.0
    answer = vault.answer(ask(3))
    assert isinstance(answer, Refused)
    assert answer.reason == "budget"
    assert ledger.spending().charges == 3


@pytest.mark.parametrize("budget", ["once", "k-times", "halving"])
@pytest.mark.parametrize("epsilon", [0.1, 1 / 3, 2.0, 50.0])
def test_every_scheduled_visit_is_affordable(budget: Any, epsilon: float) -> None:
    shares = visit_epsilons(budget, 1 if budget == "once" else 7, epsilon)
    ledger = make_ledger(epsilon)
    vault = make_vault(ledger, make_terms(epsilons=shares))
    for slot in range(len(shares)):
        get_release(vault, ask(slot))
    assert ledger.spending().epsilon <= epsilon
    assert isinstance(vault.answer(ask(len(shares))), Refused)


def test_the_same_visit_has_the_same_answer_at_any_model() -> None:
    vault = make_vault()
    first = get_release(vault, ask(0))
    repeated = get_release(vault, ask(0, np.ones(SIZE)))
    assert repeated.value.tobytes() == first.value.tobytes()
    assert vault.spending().charges == 1


@pytest.mark.parametrize(
    "changes", [{"law": "copies"}, {"epsilons": visit_epsilons("halving", 3, 2.0)}, {"epsilons": (1.0,)}]
)
def test_a_visit_under_other_terms_is_refused(changes: dict[str, Any]) -> None:
    ledger = make_ledger()
    get_release(make_vault(ledger), ask(0))
    answer = make_vault(ledger, make_terms(**changes)).answer(ask(0))
    assert isinstance(answer, Refused)
    assert answer.reason == "terms"


def test_a_charge_with_a_lost_release_pays_only_under_its_own_terms() -> None:
    ledger = make_ledger()
    mechanism = calibrate_pure_sum(copies=CLASSES, features=FEATURES, law="joint", epsilon=1.0, charged_epsilon=1.0)
    assert ledger.charge(ask(0).id, mechanism.event)
    with pytest.raises(LedgerError, match=r"different.*terms"):
        make_vault(ledger, make_terms(epsilons=(0.5, 0.5))).answer(ask(0))
    assert get_release(make_vault(ledger, make_terms(epsilons=(1.0,))), ask(0)).value.size == SIZE + 1


@pytest.mark.parametrize(
    "query",
    [
        Query("gradient-walk", "record", 0, np.empty(0)),
        Query("gradient-walk", "gradient", -1, np.zeros(SIZE)),
        Query("gradient-walk", "gradient", 0, np.zeros(SIZE - 1)),
        Query("gradient-walk", "gradient", 0, np.full(SIZE, np.nan)),
        Query("gradient-walk", "gradient", 0, np.full(SIZE, np.inf)),
    ],
)
def test_an_invalid_query_is_refused_and_costs_nothing(query: Query) -> None:
    vault = make_vault()
    answer = vault.answer(query)
    assert isinstance(answer, Refused)
    assert (answer.reason, vault.spending().charges) == ("query", 0)


def test_a_device_without_records_reports_it_at_no_cost() -> None:
    vault = make_vault(records=Records(np.empty((0, FEATURES)), np.empty(0, dtype=np.int64)))
    answer = vault.answer(ask(0))
    assert isinstance(answer, Refused)
    assert (answer.reason, vault.spending().charges) == ("record", 0)


def test_records_without_a_length_count_as_zero() -> None:
    rows = np.array([[0.0, 0.0, 0.0], [1e308, 1e308, 1e308], [5e-324, 0.0, 0.0], [1e-310, -3e-310, 0.0]])
    records = Records(rows, np.array([0, 1, 2, 3]))
    answer = get_release(make_vault(make_ledger(None), make_terms(epsilons=(math.inf,)), records=records), ask(0))
    result = answer.value[:-1].reshape(CLASSES, FEATURES) * answer.step
    small = np.array([1.0, 0.0, 0.0])
    last = np.array([0.25, -0.75, 0.0])
    assert result == pytest.approx(np.stack([-small - last, -small - last, small - last, -small + last]), abs=1e-6)
    assert answer.value[-1] == 4


def test_guarantees_that_do_not_hold_are_refused() -> None:
    with pytest.raises(PrivacyError, match=r"set privacy\.neighbouring=replace-one"):
        make_vault(make_ledger(neighbouring="add-remove"))
    with pytest.raises(PrivacyError, match=r"visits.*cost"):
        make_vault(terms=make_terms(epsilons=(1.0, 1.0, 1e-12)))
    with pytest.raises(PrivacyError, match=r"fit.*budget"):
        make_vault(make_ledger(None))
    with pytest.raises(PrivacyError, match=r"fit.*budget"):
        make_vault(terms=make_terms(epsilons=(math.inf,)))
    with pytest.raises(PrivacyError, match=r"leaks.*budget"):
        make_vault(terms=make_terms(scaling="training-min-max"))
    with pytest.raises(PrivacyError, match=r"grid.*privacy\.epsilon"):
        make_vault(terms=make_terms(epsilons=visit_epsilons("halving", 60, 2.0)))
    with pytest.raises(PrivacyError, match=r"grid.*privacy\.epsilon"):
        make_vault(terms=make_terms(epsilons=visit_epsilons("halving", 5000, 2.0)))
    with pytest.raises(PrivacyError, match=r"charge.*smaller"):
        PureSum(CLASSES, FEATURES, -20, "joint", 2**21, 0.99)
    with pytest.raises(PrivacyError, match=r"charge.*smaller"):
        PureSum(CLASSES, FEATURES, -20, "none", 0, 5.0)
    with pytest.raises(DataError, match="5 features"):
        make_vault(terms=make_terms(features=5))


def test_the_statement_states_the_guarantee() -> None:
    proved = make_vault().statement
    assert (proved.status, proved.epsilon, proved.neighbouring) == (Status.PROVED, 2.0, "replace-one")
    assert "ε = 2 over 3 visits" in proved.mechanism
    letter = make_vault(terms=make_terms(law="copies")).statement
    assert letter.status == Status.PROVED
    assert "each one-vs-all copy" in letter.mechanism
    refuted = make_vault(make_ledger(None), make_terms(scaling="training-min-max"))
    assert (refuted.statement.status, refuted.statement.epsilon) == (Status.REFUTED, 2.0)
    get_release(refuted, ask(0))
    assert refuted.spending().epsilon == math.inf


def test_different_releases_have_different_terms() -> None:
    mine = PureRelease("joint", 3, 4, 8, 10, 1.0)
    others = [
        PureRelease("copies", 3, 4, 8, 10, 1.0),
        PureRelease("joint", 4, 4, 8, 10, 1.0),
        PureRelease("joint", 3, 5, 8, 10, 1.0),
        PureRelease("joint", 3, 4, 9, 10, 1.0),
        PureRelease("joint", 3, 4, 8, 11, 1.0),
        PureRelease("joint", 3, 4, 8, 10, math.nextafter(1.0, 2.0)),
    ]
    assert len({mine.terms, *(other.terms for other in others)}) == 7
    for sensitivity, scale, epsilon in ((0, 1, 1.0), (1, -1, 1.0), (1, 1, 0.0), (1, 1, math.nan)):
        with pytest.raises(PrivacyError):
            PureRelease("joint", 3, 4, sensitivity, scale, epsilon)
