"""Charges of both kinds in one ledger: sums count for all records, and releases of single records count one by one."""

import json
import math

import pytest
from sottovoce.accounting.events import Event, GaussianSum, RecordReleased, Unproved
from sottovoce.accounting.gaussian import gaussian_epsilon
from sottovoce.errors import PrivacyError
from sottovoce.vault import Budget, Ledger

SUM = GaussianSum(10**6, 10_000)


def ledger(epsilon: float | None = 2.0) -> Ledger:
    return Ledger.in_memory("meter-17", Budget(epsilon, 1e-5, "record", "replace-one"))


def of(record: int, epsilon: float) -> RecordReleased:
    return RecordReleased(record, "privunit", 3, 4, epsilon)


def charge_event(book: Ledger, number: int, event: Event) -> bool:
    return book.charge(number.to_bytes(32, "big"), event)


def test_releases_of_different_records_cost_as_much_as_the_most_expensive() -> None:
    book = ledger()
    for record, epsilon in enumerate([0.5, 1.25, 1.0]):
        assert charge_event(book, record, of(record, epsilon))
    assert book.spending().epsilon == 1.25
    assert book.spending().charges == 3


def test_releases_of_one_record_add_up_until_its_budget_is_spent() -> None:
    book = ledger()
    assert charge_event(book, 1, of(7, 1.5))
    assert not charge_event(book, 2, of(7, 0.6))
    assert charge_event(book, 3, of(7, 0.4))
    assert charge_event(book, 4, of(8, 2.0))
    assert not charge_event(book, 5, of(7, 0.1 + 1e-9))
    assert 1.9 <= book.spending().epsilon <= 2.0


@pytest.mark.parametrize("epsilon", [0.1, 1 / 3, 2.0, 7.3])
def test_a_budget_pays_for_one_release_with_its_whole_epsilon(epsilon: float) -> None:
    book = ledger(epsilon)
    assert charge_event(book, 1, of(0, epsilon))
    assert book.spending().epsilon == epsilon
    assert not charge_event(book, 2, of(0, 5e-324 + epsilon / 2**50))


def test_many_small_releases_are_rounded_up() -> None:
    book = ledger()
    for number in range(30):
        charge_event(book, number, of(0, 0.1 / 3))
    assert 1.0 <= book.spending().epsilon < 1.0 + 1e-12


def test_sums_and_releases_compose() -> None:
    """Every record pays for the sums, and also for its own release."""
    book = ledger()
    for number in range(4):
        assert charge_event(book, number, SUM)
    sums = gaussian_epsilon(math.sqrt(4 * SUM.mu_squared), 1e-5)
    assert book.spending().epsilon == pytest.approx(sums, rel=1e-12)
    assert charge_event(book, 10, of(0, 0.5))
    assert charge_event(book, 11, of(1, 0.25))
    assert book.spending().epsilon == pytest.approx(sums + 0.5, rel=1e-12)
    assert book.spending().epsilon >= sums + 0.5
    assert not charge_event(book, 12, of(2, 2.0 - sums + 1e-6))
    assert charge_event(book, 13, of(2, 2.0 - sums - 1e-6))
    assert not charge_event(book, 14, GaussianSum(10**6, 20_000)), "record 2 has no budget left for a sum"
    assert charge_event(book, 15, of(3, 1.0))


def test_a_sum_is_limited_by_the_record_that_has_spent_most() -> None:
    book = ledger()
    assert charge_event(book, 1, of(5, 1.9))
    assert charge_event(book, 2, of(6, 0.1))
    assert not charge_event(book, 3, SUM)
    assert book.spending().charges == 2


def test_noise_free_releases_are_infinite_for_one_record_or_for_all() -> None:
    assert not charge_event(ledger(), 1, Unproved("none"))
    assert not charge_event(ledger(), 1, of(0, math.inf))
    book = ledger(None)
    assert charge_event(book, 1, of(0, 1.0))
    assert book.spending().epsilon == 1.0
    assert charge_event(book, 2, of(1, math.inf))
    assert book.spending().epsilon == math.inf
    book = ledger(None)
    assert charge_event(book, 1, Unproved("none"))
    assert book.spending().epsilon == math.inf


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
    mine = of(0, 1.0)
    assert mine.terms == of(0, 1.0).terms
    assert mine.terms != RecordReleased(record, scheme, features, classes, epsilon).terms


def test_terms_are_canonical_json() -> None:
    for event in (SUM, of(3, 0.1), of(3, math.inf), Unproved("none")):
        fields = json.loads(event.terms)
        assert event.terms == json.dumps(fields, sort_keys=True, separators=(",", ":"))
    assert len({event.terms for event in (SUM, of(3, 0.1), Unproved("none"))}) == 3


@pytest.mark.parametrize("record, epsilon", [(-1, 1.0), (0, 0.0), (0, -1.0), (0, math.nan)])
def test_invalid_charges_are_not_events(record: int, epsilon: float) -> None:
    with pytest.raises(PrivacyError):
        of(record, epsilon)
