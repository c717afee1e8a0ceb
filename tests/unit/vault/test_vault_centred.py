"""The sum of records and the gradients over centred records: bounded, charged once each, and whole in their budget."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from sottovoce.data import Records
from sottovoce.errors import PrivacyError
from sottovoce.kernels.softmax import Softmax
from sottovoce.privacy.accounting.event_parser import parse_event
from sottovoce.privacy.accounting.events import GaussianSum
from sottovoce.privacy.api import Answer, Query, Refused
from sottovoce.privacy.mechanisms import clipped_sum
from sottovoce.privacy.terms import build, gradients
from sottovoce.privacy.terms.gradients import MEAN_SHARE, GradientTerms, NormalisedTerms, RecordSum
from sottovoce.privacy.vault import Budget, Ledger, SeededNoise, Vault
from sottovoce.privacy.vault.programs.centred import CentredSum

from tests.support.exact_epsilon import exact_epsilon

KERNEL, BIAS, STEPS = Softmax(3, 2), 0.3, 4
SUM = Query("clipd2p", "mean", 0, np.empty(0))


def draw_records(count: int, seed: int = 0) -> Records:
    """Records as the transform makes them: two numbers of length 1, and the bias."""
    rng = np.random.default_rng(seed)
    angles = rng.normal(size=count)
    features = np.stack([np.cos(angles), np.sin(angles), np.full(count, BIAS)], axis=1)
    return Records(features, rng.integers(0, 2, count))


def ledger(epsilon: float | None = 1.0, neighbouring: str = "add-remove", unit: str = "record") -> Ledger:
    return Ledger.in_memory("meter-17", Budget(epsilon, 1e-5, unit, neighbouring))


def vault(records: Records, book: Ledger, terms: GradientTerms | NormalisedTerms | None = None) -> Vault:
    default = GradientTerms("clipd2p", STEPS, 0.5, records=RecordSum(3, BIAS))
    return build(records=records, kernel=KERNEL, terms=terms or default, ledger=book, noise=SeededNoise(1))


def gradient(slot: int, *mean: float) -> Query:
    return Query("clipd2p", "gradient", slot, np.append(np.linspace(-1, 1, KERNEL.size), mean))


def value(answer: Answer) -> NDArray[np.float64]:
    assert not isinstance(answer, Refused)
    released: NDArray[np.float64] = answer.value * np.float64(answer.step)
    return released


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 8.0])
@pytest.mark.parametrize("neighbouring", ["add-remove", "replace-one"])
def test_the_sum_and_all_gradients_cost_the_budget_and_no_more(epsilon: float, neighbouring: str) -> None:
    """ε from the ledger's own charges, by a second library."""
    book = ledger(epsilon, neighbouring)
    tested = vault(draw_records(30), book)
    for query in (SUM, *(gradient(slot, 0.3, -0.2) for slot in range(STEPS))):
        assert not isinstance(tested.answer(query), Refused)
    refused = tested.answer(gradient(STEPS, 0.3, -0.2))
    assert isinstance(refused, Refused)
    assert refused.reason == "budget"
    charges = [parse_event(terms) for _, terms, _ in book.charges()]
    assert len(charges) == STEPS + 1
    exact = exact_epsilon({event: charges.count(event) for event in charges}, 1e-5)
    assert 0.98 * epsilon < exact <= epsilon
    assert tested.lifetime == {event: charges.count(event) for event in charges}
    shares = [event.mu_squared for event in charges]
    assert shares[0] / sum(shares) == pytest.approx(MEAN_SHARE, rel=1e-3)


def test_the_sum_is_that_of_the_records_and_each_moves_it_by_at_most_its_clip() -> None:
    records, clip = draw_records(9), math.sqrt(1 + BIAS**2)
    exact = value(vault(records, ledger(None)).answer(SUM))
    assert exact == pytest.approx(records.features.sum(axis=0), abs=1e-4)
    long = replace(records, features=np.vstack([records.features[:8], [1e9, 0.0, 0.0]]))
    moved = value(vault(long, ledger(None)).answer(SUM)) - value(
        vault(records.at(np.arange(8)), ledger(None)).answer(SUM)
    )
    assert clip * 0.999 < np.linalg.norm(moved) <= clip


def test_the_sum_is_released_once_whatever_records_come_later() -> None:
    book = ledger()
    first = value(vault(draw_records(9), book).answer(SUM))
    later = vault(draw_records(40, seed=5), book)
    assert value(later.answer(SUM)).tolist() == first.tolist()
    assert later.spending().charges == 1
    assert isinstance(later.answer(replace(SUM, slot=1)), Refused)


@pytest.mark.parametrize("mean", [(0.0, 0.0), (0.5, -0.2), (0.95, 0.0)])
def test_one_record_moves_a_gradient_by_its_own_clipped_gradient(mean: tuple[float, float]) -> None:
    records = draw_records(9)

    def total(some: Records) -> NDArray[np.int64]:
        answer = vault(some, ledger(None)).answer(gradient(0, *mean))
        assert not isinstance(answer, Refused)
        return answer.value

    alone = total(records.at(np.array([8])))
    np.testing.assert_array_equal(total(records) - total(records.at(np.arange(8))), alone)
    assert np.linalg.norm(value(vault(records.at(np.array([8])), ledger(None)).answer(gradient(0, *mean)))) <= 0.5


def test_gradients_are_those_of_centred_records() -> None:
    records, mean, scale = draw_records(5), np.array([0.6, 0.0]), 1 / math.sqrt(1 - 0.36)
    centred = records.features.copy()
    centred[:, :2] = scale * (centred[:, :2] - mean)
    without = GradientTerms("clipd2p", STEPS, 0.5)
    plain = replace(gradient(0), point=gradient(0).point[: KERNEL.size])
    expected = value(vault(replace(records, features=centred), ledger(None), without).answer(plain))
    assert value(vault(records, ledger(None)).answer(gradient(0, *mean))) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("mean", [(1.0, 0.0), (0.7, 0.7), (math.nan, 0.0), (math.inf, 0.0), (0.1,), ()])
def test_an_unusable_mean_is_refused_and_costs_nothing(mean: tuple[float, ...]) -> None:
    tested = vault(draw_records(9), ledger())
    refused = tested.answer(gradient(0, *mean))
    assert isinstance(refused, Refused)
    assert refused.reason == "query"
    assert tested.spending().charges == 0


def test_a_moving_threshold_and_a_mean_go_together() -> None:
    terms = NormalisedTerms(GradientTerms("clipd2p", STEPS, 1.0, records=RecordSum(3, BIAS)), "decay")
    book = ledger()
    tested = vault(draw_records(9), book, terms)
    assert not isinstance(tested.answer(SUM), Refused)
    for slot in range(STEPS):
        point = np.append(gradient(slot).point, (0.5, 0.3, -0.1))  # the threshold, then the mean
        assert not isinstance(tested.answer(replace(gradient(slot), point=point)), Refused)
    assert tested.spending().epsilon <= 1.0


@pytest.mark.parametrize("change", [{"sampling": "poisson", "batch": 2, "of": 8}, {"sampling": "blocks", "of": 8}])
def test_sampled_gradients_are_refused(change: dict[str, object]) -> None:
    terms = GradientTerms("clipd2p", STEPS, 0.5, records=RecordSum(3, BIAS), **change)  # type: ignore[arg-type]
    with pytest.raises(PrivacyError, match="centre"):
        vault(draw_records(9), ledger(), terms)


def test_larger_units_are_refused() -> None:
    with pytest.raises(PrivacyError, match="record"):
        vault(draw_records(9), ledger(unit="device"))


def test_the_statement_names_the_sum() -> None:
    statement = vault(draw_records(9), ledger()).statement
    assert statement.status == "proved"
    assert "sum of the records" in statement.mechanism
    assert "1.044" in statement.mechanism


def _sum_charged_as_half(patch: pytest.MonkeyPatch) -> None:
    event = clipped_sum.DiscreteGaussian.event

    def cheaper(self: clipped_sum.DiscreteGaussian) -> GaussianSum:
        paid: GaussianSum = event.fget(self)  # type: ignore[attr-defined]
        return replace(paid, sensitivity_squared=paid.sensitivity_squared // 4) if self.size == 3 else paid

    patch.setattr(clipped_sum.DiscreteGaussian, "event", property(cheaper))


def _budget_not_shared(patch: pytest.MonkeyPatch) -> None:
    calibrate = clipped_sum.calibrate

    def calibrated(*, spent_mu_squared: float = 0.0, **named: object) -> clipped_sum.DiscreteGaussian:
        del spent_mu_squared
        return calibrate(**named)  # type: ignore[arg-type]

    patch.setattr(gradients, "calibrate", calibrated)


def _mean_slots_open(patch: pytest.MonkeyPatch) -> None:
    plan = CentredSum.plan
    patch.setattr(
        CentredSum, "plan", lambda self, query: plan(self, replace(query, slot=0) if query.kind == "mean" else query)
    )


@pytest.mark.parametrize(
    "fault, check",
    [
        (_sum_charged_as_half, lambda: test_the_sum_and_all_gradients_cost_the_budget_and_no_more(1.0, "add-remove")),
        (_budget_not_shared, lambda: test_the_sum_and_all_gradients_cost_the_budget_and_no_more(1.0, "add-remove")),
        (_mean_slots_open, test_the_sum_is_released_once_whatever_records_come_later),
    ],
)
def test_planted_faults_are_found(
    monkeypatch: pytest.MonkeyPatch, fault: Callable[[pytest.MonkeyPatch], None], check: Callable[[], None]
) -> None:
    fault(monkeypatch)
    with pytest.raises(AssertionError):
        check()
