"""Cost of a release for the units in a ledger with another guarantee."""

import pytest
from sottovoce.errors import TaskRefused
from sottovoce.privacy.accounting.events import Event, GaussianSum, PureRelease, RecordReleased, UnprovedRelease
from sottovoce.privacy.accounting.relations import Promise, convert_charge
from sottovoce.privacy.accounting.tally import Tally
from sottovoce.privacy.accounting.units import EVERY, Units

RECORD, WINDOW, DEVICE = "record", "window", "device"
ADD, REPLACE = "add-remove", "replace-one"
GAUSSIAN, UNITS = GaussianSum(4, 10), Units(((3, 5),))
PURE = PureRelease("max-norm-laplace", 1, 4, 2, 4, 0.5)
RECORD_RELEASE = RecordReleased(3, "laplace", 4, 2, 0.5)


@pytest.mark.parametrize("event", [GAUSSIAN, PURE, RECORD_RELEASE], ids=["gaussian", "pure", "record"])
@pytest.mark.parametrize("unit", [RECORD, WINDOW, DEVICE])
@pytest.mark.parametrize("relation", [ADD, REPLACE])
def test_a_release_in_the_ledger_s_own_terms_costs_as_stated(event: Event, unit: str, relation: str) -> None:
    assert convert_charge(event, Promise(unit, relation), Promise(unit, relation)) == (event, 1)


@pytest.mark.parametrize(
    "release_promise, ledger_promise, changes",
    [
        (Promise(RECORD, ADD), Promise(RECORD, REPLACE), 2),
        (Promise(DEVICE, ADD), Promise(RECORD, ADD), 2),
        (Promise(DEVICE, ADD), Promise(WINDOW, REPLACE), 2),
        (Promise(DEVICE, REPLACE), Promise(RECORD, ADD), 1),
        (Promise(DEVICE, REPLACE), Promise(WINDOW, REPLACE), 1),
    ],
)
def test_changes_that_turn_one_neighbour_into_the_other(
    release_promise: Promise, ledger_promise: Promise, changes: int
) -> None:
    event, result = convert_charge(GaussianSum(4, 10, UNITS), release_promise, ledger_promise)
    assert result == changes
    full = release_promise.unit == DEVICE and ledger_promise.unit == RECORD
    assert event.units == (EVERY if full else UNITS), "a device-level release covers all records, or completed windows"


@pytest.mark.parametrize(
    "event, release_promise, ledger_promise, message",
    [
        (GAUSSIAN, Promise(RECORD, ADD), Promise(DEVICE, ADD), "device"),
        (GAUSSIAN, Promise(RECORD, ADD), Promise(WINDOW, ADD), "window"),
        (GAUSSIAN, Promise(WINDOW, ADD), Promise(RECORD, ADD), r"\brecord\b"),
        (GAUSSIAN, Promise(RECORD, REPLACE), Promise(RECORD, ADD), "reveal"),
        (GAUSSIAN, Promise(DEVICE, REPLACE), Promise(DEVICE, ADD), "reveal"),
        (RECORD_RELEASE, Promise(RECORD, REPLACE), Promise(RECORD, ADD), "reveal"),
        (PURE, Promise(RECORD, REPLACE), Promise(RECORD, ADD), "reveal"),
    ],
)
def test_conversions_without_a_proof_are_refused(
    event: Event, release_promise: Promise, ledger_promise: Promise, message: str
) -> None:
    with pytest.raises(TaskRefused, match=message):
        convert_charge(event, release_promise, ledger_promise)


def test_unproved_costs_stay_infinite() -> None:
    tally = Tally(1e-5)
    tally.add(*convert_charge(UnprovedRelease("none"), Promise(DEVICE, ADD), Promise(RECORD, ADD)))
    assert tally.epsilon() == float("inf")


def test_two_changes_cost_as_much_as_a_group_of_two() -> None:
    """A Gaussian's sensitivity doubles, and so does a pure ε."""
    twice, doubled = Tally(1e-5), Tally(1e-5)
    twice.add(GAUSSIAN, 2)
    doubled.add(GaussianSum(16, 10))
    assert twice.epsilon() == pytest.approx(doubled.epsilon(), rel=1e-12)
    pure = Tally(1e-5)
    pure.add(PURE, 2)
    assert pure.epsilon() == 1.0


def test_renumbered_records_count_as_the_record_charged_most() -> None:
    tally = Tally(1e-5)
    tally.add(RecordReleased(3, "laplace", 4, 2, 0.5))
    tally.add(RecordReleased(3, "laplace", 4, 2, 0.5))
    tally.add(RecordReleased(8, "laplace", 4, 2, 0.25))
    renumbered = tally.renumber()
    assert renumbered.epsilon(Units(((77, 77),))) == 1.25, (
        "twice a half for one record, a quarter for another: both for any record"
    )
    assert renumbered.payable_units(RecordReleased(9, "laplace", 4, 2, 0.5), 1.5) is None
    assert renumbered.payable_units(RecordReleased(9, "laplace", 4, 2, 0.5), 1.75) is not None
