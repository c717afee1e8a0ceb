"""Privacy units larger than a record: a window of records, and the whole device."""

import itertools
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from sottovoce.data import Records
from sottovoce.errors import DataError, PrivacyError
from sottovoce.kernels.softmax import Softmax
from sottovoce.privacy.accounting.gaussian import gaussian_mu
from sottovoce.privacy.accounting.units import EVERY, Units
from sottovoce.privacy.api import Query, Refused, Release
from sottovoce.privacy.mechanisms.clipped_sum import exact_sum
from sottovoce.privacy.perturbation import scheme
from sottovoce.privacy.terms import build
from sottovoce.privacy.terms.base import unit_records
from sottovoce.privacy.terms.gradients import GradientTerms
from sottovoce.privacy.terms.records import RecordTerms
from sottovoce.privacy.vault import Budget, Ledger, OperatingSystemNoise, Vault
from sottovoce.privacy.vault.programs.gradient import GradientSum
from sottovoce.privacy.vault.record_selection import select_units

KERNEL = Softmax(3, 4)
POINT = np.zeros(KERNEL.size)
STEPS, CLIP = 3, 0.5
Make = Callable[..., Vault]


def make_records(days: list[int]) -> Records:
    """Make one record for each entry, which is its day."""
    generator = np.random.default_rng(7)
    count = len(days)
    return Records(
        generator.normal(size=(count, 3)) * 5, generator.integers(0, 4, count), np.array(days, dtype=np.int64)
    )


def make_vault(records: Records, ledger: Ledger, windows: tuple[int, int] | None) -> Vault:
    return build(
        records=records,
        kernel=KERNEL,
        terms=GradientTerms("clipd2p", STEPS, CLIP, windows),
        ledger=ledger,
        noise=OperatingSystemNoise(),
    )


def make_ledger(unit: str, epsilon: float | None = 2.0) -> Ledger:
    return Ledger.in_memory("meter-17", Budget(epsilon, 1e-5, unit, "add-remove"))


def ask(vault: Vault, slot: int) -> Release | Refused:
    return vault.answer(Query("clipd2p", "gradient", slot, POINT))


def test_a_window_pays_for_the_releases_that_include_it() -> None:
    ledger = make_ledger("window")
    first = make_vault(make_records([0, 0, 1, 2]), ledger, (0, 2))
    for slot in range(STEPS):
        assert not isinstance(ask(first, slot), Refused)
    spent = ledger.spending().epsilon
    assert 1.9 < spent <= 2.0
    assert isinstance(ask(first, STEPS), Refused), "days 0 to 2 have nothing left"
    later = make_vault(make_records([0, 0, 1, 2, 3, 3]), ledger, (0, 3))
    release = ask(later, STEPS)
    assert not isinstance(release, Refused), "day 3 is new and pays for itself"
    assert ledger.spending().epsilon == spent
    assert ledger.epsilon_spent(Units(((3, 3),))) < spent / math.sqrt(STEPS)
    event = ledger.charged_event(Query("clipd2p", "gradient", STEPS, POINT).id)
    assert event is not None
    assert event.units == Units(((3, 3),))


def test_time_alone_renews_nothing() -> None:
    """A wider declared range without new days of data adds nothing: the old days stay spent."""
    ledger = make_ledger("window")
    vault = make_vault(make_records([0, 1]), ledger, (0, 1))
    for slot in range(STEPS):
        ask(vault, slot)
    assert isinstance(ask(make_vault(make_records([0, 1]), ledger, (0, 1)), 90), Refused)


def test_windows_without_budget_are_not_included(read_windows: list[int]) -> None:
    ledger = make_ledger("window")
    early = make_vault(make_records([4, 4]), ledger, (0, 4))
    for slot in range(STEPS):
        ask(early, slot)
    read_windows.clear()
    assert not isinstance(ask(make_vault(make_records([4, 5, 4, 5, 6]), ledger, (0, 5)), STEPS), Refused)
    assert read_windows == [5, 5], "day 4 is spent, and day 6 is not declared"


def test_no_window_ever_exceeds_the_budget() -> None:
    ledger = make_ledger("window")
    for last in range(12):
        vault = make_vault(make_records(list(range(last + 1))), ledger, (max(0, last - 5), last))
        for slot in range(2):
            ask(vault, 10 * last + slot)
    for day in range(12):
        assert ledger.epsilon_spent(Units(((day, day),))) <= 2.0
    assert ledger.epsilon_spent(Units(((50, 50),))) == 0.0
    assert ledger.spending().epsilon <= 2.0


@pytest.mark.parametrize("unit", ["window", "device"])
@pytest.mark.parametrize("copies", [1, 40])
def test_a_unit_adds_at_most_the_clip_however_many_records_it_has(unit: str, copies: int) -> None:
    sample = make_records([3] * copies)
    sample = replace(sample, windows=sample.windows if unit == "window" else None)
    mechanism = exact_sum(clip=CLIP, size=KERNEL.size)
    program = GradientSum(KERNEL, mechanism, unit, EVERY)
    value = mechanism.apply(program.compute(Query("clipd2p", "gradient", 0, POINT), sample), OperatingSystemNoise())
    norm = float(np.linalg.norm(value * mechanism.step))
    assert norm <= CLIP
    assert norm > 0.99 * CLIP


def test_a_window_does_not_depend_on_other_windows_records() -> None:
    program = GradientSum(KERNEL, exact_sum(clip=None, size=KERNEL.size), "window", EVERY)
    query = Query("clipd2p", "gradient", 0, POINT)
    together = unit_records(make_records([1, 0, 1, 2, 0]), "window")
    rows = np.concatenate(list(program.compute(query, together)))
    for day, row in zip([0, 1, 2], rows, strict=True):
        (alone,) = program.compute(query, select_units(together, Units(((day, day),))))
        assert (alone[0] == row).all(), "to the last bit"


def test_a_window_does_not_depend_on_its_records_order() -> None:
    """Floating-point sums do: in some orders, the long records below leave nothing of the short one."""
    mechanism = exact_sum(clip=CLIP, size=KERNEL.size)
    program = GradientSum(KERNEL, mechanism, "window", EVERY)
    long = np.array([1.0, 2.0, -1.0]) * 1e17
    features = np.array([long, [0.3, -0.2, 0.7], -long, [0.1, 0.2, 0.9], [0.4, 0.4, 0.4]])
    sample = Records(features, np.array([1, 1, 1, 2, 0]), np.array([0, 0, 0, 0, 1]))
    query, observed = Query("clipd2p", "gradient", 0, POINT), set()
    for order in itertools.permutations(range(len(sample))):
        shuffled = unit_records(sample.at(np.array(order)), "window")
        observed.add(mechanism.apply(program.compute(query, shuffled), OperatingSystemNoise()).tobytes())
    assert len(observed) == 1


@pytest.mark.parametrize("days", [[], [0, 1]])
def test_a_device_adds_the_same_noise_with_or_without_records(days: list[int]) -> None:
    vault = make_vault(make_records(days), make_ledger("device"), None)
    release = ask(vault, 0)
    assert isinstance(release, object)
    assert not isinstance(release, Refused)
    deviation = float(np.std(release.value * release.step))
    expected = CLIP * math.sqrt(STEPS) / gaussian_mu(2.0, 1e-5)
    assert 0.2 * expected < deviation < 5 * expected


def test_a_window_unit_requires_records_with_windows() -> None:
    sample = replace(make_records([1, 2]), windows=None)
    with pytest.raises(DataError, match="windows"):
        make_vault(sample, make_ledger("window"), (0, 9))


@pytest.mark.parametrize("unit", ["window", "device"])
def test_published_records_are_bounded_record_by_record(unit: str) -> None:
    ledger = Ledger.in_memory("meter-17", Budget(2.0, 1e-5, unit, "replace-one"))
    with pytest.raises(PrivacyError, match=r"privacy\.unit=record"):
        build(
            records=make_records([1]),
            kernel=None,
            terms=RecordTerms("golf", scheme("privunit", 3, 4, 2.0), "declared"),
            ledger=ledger,
            noise=OperatingSystemNoise(),
        )


def test_the_statement_mentions_the_clipped_unit() -> None:
    for unit in ("record", "window", "device"):
        vault = make_vault(make_records([1]), make_ledger(unit), (0, 3))
        assert ("example" if unit == "record" else unit) in vault.statement.mechanism
        assert vault.statement.unit == unit
