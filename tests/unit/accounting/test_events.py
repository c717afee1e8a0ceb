"""Charges of both kinds in one ledger: sums count for all records, and releases of single records count one by one."""

import json
import math

import pytest
from sottovoce.errors import PrivacyError
from sottovoce.privacy.accounting.events import Event, GaussianSum, RecordReleased, UnprovedRelease
from sottovoce.privacy.accounting.gaussian import gaussian_epsilon
from sottovoce.privacy.vault import Budget, Ledger

SUM = GaussianSum(10**6, 10_000)


def make_ledger(epsilon: float | None = 2.0) -> Ledger:
    return Ledger.in_memory("meter-17", Budget(epsilon, 1e-5, "record", "replace-one"))


def record_release(record: int, epsilon: float) -> RecordReleased:
    return RecordReleased(record, "privunit", 3, 4, epsilon)


def charge_event(ledger: Ledger, number: int, event: Event) -> bool:
    return ledger.charge(number.to_bytes(32, "big"), event)


def test_releases_of_different_records_cost_as_much_as_the_most_expensive() -> None:
    ledger = make_ledger()
    for record, epsilon in enumerate([0.5, 1.25, 1.0]):
        assert charge_event(ledger, record, record_release(record, epsilon))
    assert ledger.spending().epsilon == 1.25
    assert ledger.spending().charges == 3


def test_releases_of_one_record_add_up_until_its_budget_is_spent() -> None:
    ledger = make_ledger()
    assert charge_event(ledger, 1, record_release(7, 1.5))
    assert not charge_event(ledger, 2, record_release(7, 0.6))
    assert charge_event(ledger, 3, record_release(7, 0.4))
    assert charge_event(ledger, 4, record_release(8, 2.0))
    assert not charge_event(ledger, 5, record_release(7, 0.1 + 1e-9))
    assert 1.9 <= ledger.spending().epsilon <= 2.0


@pytest.mark.parametrize("epsilon", [0.1, 1 / 3, 2.0, 7.3])
def test_a_budget_pays_for_one_release_with_its_whole_epsilon(epsilon: float) -> None:
    ledger = make_ledger(epsilon)
    assert charge_event(ledger, 1, record_release(0, epsilon))
    assert ledger.spending().epsilon == epsilon
    assert not charge_event(ledger, 2, record_release(0, 5e-324 + epsilon / 2**50))


def test_many_small_releases_are_rounded_up() -> None:
    ledger = make_ledger()
    for number in range(30):
        charge_event(ledger, number, record_release(0, 0.1 / 3))
    assert 1.0 <= ledger.spending().epsilon < 1.0 + 1e-12


def test_sums_and_releases_compose() -> None:
    """Every record pays for the sums, and also for its own release."""
    ledger = make_ledger()
    for number in range(4):
        assert charge_event(ledger, number, SUM)
    sums = gaussian_epsilon(math.sqrt(4 * SUM.mu_squared), 1e-5)
    assert ledger.spending().epsilon == pytest.approx(sums, rel=1e-12)
    assert charge_event(ledger, 10, record_release(0, 0.5))
    assert charge_event(ledger, 11, record_release(1, 0.25))
    assert ledger.spending().epsilon == pytest.approx(sums + 0.5, rel=1e-12)
    assert ledger.spending().epsilon >= sums + 0.5
    assert not charge_event(ledger, 12, record_release(2, 2.0 - sums + 1e-6))
    assert charge_event(ledger, 13, record_release(2, 2.0 - sums - 1e-6))
    assert not charge_event(ledger, 14, GaussianSum(10**6, 20_000)), "record 2 has no budget left for a sum"
    assert charge_event(ledger, 15, record_release(3, 1.0))


def test_a_sum_is_limited_by_the_record_that_has_spent_most() -> None:
    ledger = make_ledger()
    assert charge_event(ledger, 1, record_release(5, 1.9))
    assert charge_event(ledger, 2, record_release(6, 0.1))
    assert not charge_event(ledger, 3, SUM)
    assert ledger.spending().charges == 2


def test_noise_free_releases_are_infinite_for_one_record_or_for_all() -> None:
    assert not charge_event(make_ledger(), 1, UnprovedRelease("none"))
    assert not charge_event(make_ledger(), 1, record_release(0, math.inf))
    ledger = make_ledger(None)
    assert charge_event(ledger, 1, record_release(0, 1.0))
    assert ledger.spending().epsilon == 1.0
    assert charge_event(ledger, 2, record_release(1, math.inf))
    assert ledger.spending().epsilon == math.inf
    ledger = make_ledger(None)
    assert charge_event(ledger, 1, UnprovedRelease("none"))
    assert ledger.spending().epsilon == math.inf


@pytest.mark.parametrize(
    "record, scheme, features, classes, epsilon",
    [
        (1, "privunit", 3, 4, 1.0),
        (0, "laplace", 3, 4, 1.0),
        (0, "privunit", 4, 4, 1.0),
        (0, "privunit", 3, 5, 1.0),
        (0, "privunit", 3, 4, math.nextafter(1.0, 2.0)),
    ],
)
def test_different_releases_have_different_terms(
    record: int, scheme: str, features: int, classes: int, epsilon: float
) -> None:
    event = record_release(0, 1.0)
    assert event.terms == record_release(0, 1.0).terms
    assert event.terms != RecordReleased(record, scheme, features, classes, epsilon).terms


def test_terms_are_canonical_json() -> None:
    for event in (SUM, record_release(3, 0.1), record_release(3, math.inf), UnprovedRelease("none")):
        fields = json.loads(event.terms)
        assert event.terms == json.dumps(fields, sort_keys=True, separators=(",", ":"))
    assert len({event.terms for event in (SUM, record_release(3, 0.1), UnprovedRelease("none"))}) == 3


@pytest.mark.parametrize("record, epsilon", [(-1, 1.0), (0, 0.0), (0, -1.0), (0, math.nan)])
def test_invalid_charges_are_not_events(record: int, epsilon: float) -> None:
    with pytest.raises(PrivacyError):
        record_release(record, epsilon)
