"""Number of a record: unique and permanent; a release reads only charged records."""

import sqlite3
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from sottovoce.accounting.units import EVERY, Units, overlap
from sottovoce.algorithms.family import records_of
from sottovoce.data import Records, identified
from sottovoce.door import Query, Refused, Release
from sottovoce.errors import DataError, InternalError, PrivacyError
from sottovoce.kernels.softmax import Softmax
from sottovoce.perturbation import scheme
from sottovoce.vault import Budget, Ledger, OperatingSystemNoise, build
from sottovoce.vault.account import account_of
from sottovoce.vault.discrete_gaussian import DiscreteGaussianSampler
from sottovoce.vault.mandate import Mandate
from sottovoce.vault.numbering import SPACE, blocks_of, enrol_records, number_by_hash
from sottovoce.vault.terms.chains import chain_count_check
from sottovoce.vault.terms.gradients import GradientTerms
from sottovoce.vault.terms.records import RecordTerms

ADD_REMOVE, REPLACE_ONE = (Budget(1.0, 1e-5, "record", relation) for relation in ("add-remove", "replace-one"))
FEATURES = 4


def some(count: int, seed: int = 0) -> Records:
    rng = np.random.default_rng(seed)
    return Records(rng.normal(size=(count, FEATURES)), rng.integers(0, 2, count))


def numbers(records: Records, ledger: Ledger) -> dict[bytes, int]:
    """The number of each record, by its features."""
    hashed = ledger.budget.neighbouring == "add-remove"
    units = (number_by_hash(records, ledger) if hashed else enrol_records(records, ledger)).units
    assert units is not None
    return {row.tobytes(): int(unit) for row, unit in zip(records.features, units, strict=True)}


def joined(*parts: Records) -> Records:
    return Records(np.concatenate([part.features for part in parts]), np.concatenate([part.labels for part in parts]))


@pytest.fixture(params=[ADD_REMOVE, REPLACE_ONE], ids=lambda budget: budget.neighbouring)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    Ledger.create(tmp_path / "ledger.db", "meter-17", request.param)
    return tmp_path / "ledger.db"


def opened(path: Path) -> Ledger:
    found = Ledger.read(path)
    found.close()
    return Ledger.open(path, found.owner, found.budget)


@pytest.mark.parametrize("path", [ADD_REMOVE], indirect=True, ids=["hashed"])
def test_rows_inserted_removed_and_reordered_change_nobody_elses_number(path: Path) -> None:
    first, new = some(30), some(10, seed=1)
    ledger = opened(path)
    before = numbers(first, ledger)
    ledger.close()
    ledger = opened(path)
    order = np.random.default_rng(2).permutation(25)
    after = numbers(joined(new, first.at(order)), ledger)
    assert all(after[row] == before[row] for row in after.keys() & before.keys())
    assert not {after[row.tobytes()] for row in new.features} & set(before.values())
    ledger.close()


@pytest.mark.parametrize("path", [ADD_REMOVE], indirect=True, ids=["hashed"])
def test_an_edited_record_is_another_one_and_returns_to_its_number(path: Path) -> None:
    ledger, held = opened(path), some(3)
    before = numbers(held, ledger)
    edited = replace(held, features=held.features + np.eye(3, FEATURES) * 1e-12)
    assert not set(numbers(edited, ledger).values()) & set(before.values())
    assert numbers(held, ledger) == before
    ledger.close()


def test_a_later_transform_changes_no_number(path: Path) -> None:
    ledger, raw = opened(path), some(12)
    as_it_was = [number_by_hash(records_of(raw, name, None), ledger).units for name in ("none", "centred-unit", "unit")]
    assert all((units == as_it_was[0]).all() for units in as_it_was)  # type: ignore[union-attr]
    ledger.close()


def test_equal_records_share_a_number_or_are_told_apart() -> None:
    twins = joined(some(2), some(2))
    hashed = number_by_hash(twins, Ledger.in_memory("meter-17", ADD_REMOVE)).units
    assert hashed is not None
    assert hashed[:2].tolist() == hashed[2:].tolist()
    counted = enrol_records(twins, Ledger.in_memory("meter-17", REPLACE_ONE)).units
    assert counted is not None
    assert counted.tolist() == [0, 1, 2, 3]


def test_zero_has_one_sign() -> None:
    plus, minus = Records(np.zeros((1, 2)), np.zeros(1, dtype=int)), Records(-np.zeros((1, 2)), np.zeros(1, dtype=int))
    one, other = identified(plus).identities, identified(minus).identities
    assert one is not None
    assert other is not None
    assert (one == other).all()


def test_label_and_window_are_part_of_a_record() -> None:
    held = some(1)
    windows = np.array([0], dtype=np.int64)
    others = [held, replace(held, labels=held.labels + 1), replace(held, windows=windows)]
    assert len({identified(one).identities.tobytes() for one in others}) == 3  # type: ignore[union-attr]


def test_numbers_follow_from_the_ledgers_own_key(tmp_path: Path) -> None:
    held, found = some(40), []
    for name in ("one.db", "other.db"):
        Ledger.create(tmp_path / name, "meter-17", ADD_REMOVE)
        ledger = opened(tmp_path / name)
        found.append(set(numbers(held, ledger).values()))
        ledger.close()
    assert not found[0] & found[1]


def test_a_record_is_in_each_block_as_often_as_in_another() -> None:
    """Over ledgers' keys: within 6 standard deviations in every block."""
    held, edges = some(4000), blocks_of(7)
    units = number_by_hash(held, Ledger.in_memory("meter-17", ADD_REMOVE)).units
    assert units is not None
    assert 0 <= units.min() <= units.max() < SPACE
    counts = np.histogram(units, bins=edges)[0]
    assert counts.sum() == 4000
    assert abs(counts - 4000 / 7).max() < 6 * np.sqrt(4000 / 7)


def rows(records: Records) -> list[bytes]:
    return [row.tobytes() for row in records.features]


def test_enrolled_records_are_those_of_the_first_start_whatever_the_file_holds_later() -> None:
    ledger, first = Ledger.in_memory("meter-17", REPLACE_ONE), some(6)
    assert rows(enrol_records(first, ledger)) == rows(first)
    for later in (first.at(np.array([3, 1])), joined(some(9, seed=8), first), some(0), some(6, seed=2)):
        held = enrol_records(later, ledger)
        assert rows(held) == rows(first)
        assert held.labels.tolist() == first.labels.tolist()
        assert held.units is not None
        assert held.units.tolist() == list(range(6))


def test_twins_do_not_tell_which_of_them_is_gone() -> None:
    """D = [v, w] and D' = [w, w], then [w] in both: every slot but the first holds the same record."""
    (v, w), later = (some(1, seed=seed) for seed in (1, 2)), some(1, seed=2)
    found = []
    for first in (joined(v, w), joined(w, w)):
        ledger = Ledger.in_memory("meter-17", REPLACE_ONE)
        enrol_records(first, ledger)
        found.append(rows(enrol_records(later, ledger)))
    assert found[0][1:] == found[1][1:]
    assert len(found[0]) == len(found[1])


def test_a_start_that_is_refused_enrols_nothing() -> None:
    """A chain of two batches of three needs six records: four are refused, and six take their place later."""
    ledger, check = Ledger.in_memory("meter-17", REPLACE_ONE), chain_count_check("without-replacement", 3, 2)
    with pytest.raises(DataError, match="4 records are too few for a chain of 2 batches of 3"):
        enrol_records(some(4), ledger, check)
    assert ledger.numbers.enrolled_records(0) is None
    assert rows(enrol_records(some(6, seed=2), ledger, check)) == rows(some(6, seed=2))
    with pytest.raises(DataError, match="6 records are too few for a chain of 2 batches of 4"):
        enrol_records(some(8), ledger, chain_count_check("without-replacement", 4, 2))


def test_enrolled_records_outlive_a_restart_in_the_precision_they_are_read_in(path: Path) -> None:
    held = replace(some(5), features=some(5).features.astype(np.float32))
    ledger = opened(path)
    enrol_records(held, ledger)
    ledger.close()
    ledger = opened(path)
    again = enrol_records(replace(some(2), features=some(2).features.astype(np.float32)), ledger)
    assert again.features.dtype == np.float32
    assert rows(again) == rows(held)
    ledger.close()


def test_records_that_are_prepared_otherwise_are_refused() -> None:
    ledger = Ledger.in_memory("meter-17", REPLACE_ONE)
    enrol_records(replace(some(3), prepared="transform none"), ledger)
    for other in (replace(some(3), prepared="transform unit"), Records(np.zeros((3, 9)), np.zeros(3, dtype=int))):
        with pytest.raises(
            PrivacyError, match=r"enrolled its records as transform none with 4 features.*restore \[data\]"
        ):
            enrol_records(other, ledger)


def test_the_key_and_the_list_stay_in_the_ledger(path: Path) -> None:
    ledger = opened(path)
    enrol_records(some(5), ledger)
    document = repr(account_of(ledger))
    assert ledger.numbers.key.hex() not in document
    for (value,) in sqlite3.connect(path).execute("SELECT value FROM enrolled"):
        assert value.hex() not in document
    ledger.close()


@pytest.mark.parametrize("statement", ["UPDATE secret SET key = x'00'", "DELETE FROM enrolled", "DELETE FROM secret"])
def test_neither_key_nor_list_is_ever_changed(path: Path, statement: str) -> None:
    ledger = opened(path)
    enrol_records(some(5), ledger)
    ledger.close()
    with sqlite3.connect(path) as connection, pytest.raises(sqlite3.IntegrityError, match="append only"):
        connection.execute(statement)


def test_records_without_numbers_are_not_read_unit_by_unit() -> None:
    assert some(3).within(EVERY).features.shape == (3, FEATURES)
    with pytest.raises(InternalError, match="without numbers"):
        some(3).within(Units(((0, 1),)))


def test_what_is_in_both() -> None:
    assert overlap(Units(((0, 4), (8, 9))), Units(((3, 8),))) == Units(((3, 4), (8, 8)))
    assert overlap(Units(((0, 4),)), Units(((5, 8),))) is None


# ------------------------------------------------------- what was found, played as it was found, noise left out


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DiscreteGaussianSampler, "draw", lambda self, count: np.zeros(count, dtype=np.int64))


def blocks(held: Records, ledger: Ledger, batch: int, of: int = 60) -> list[NDArray[np.float64] | None]:
    terms = GradientTerms("without-replacement", 1, 0.7, sampling="blocks", batch=batch, of=of)
    kernel = Softmax(FEATURES, 2)
    vault = build(records=held, kernel=kernel, terms=terms, ledger=ledger, noise=OperatingSystemNoise())
    answers = [
        vault.answer(Query("without-replacement", "gradient", slot, np.zeros(kernel.size)))
        for slot in range(max(1, of // batch))
    ]
    return [
        None if isinstance(answer, Refused) else np.ldexp(answer.value * 1.0, _exponent(answer)) for answer in answers
    ]


def _exponent(release: Release) -> int:
    return int(np.log2(release.step))


@pytest.mark.parametrize("batch", [1, 2, 20])
@pytest.mark.usefixtures("quiet")
def test_a_record_less_moves_one_block_and_no_other(batch: int) -> None:
    held = replace(some(60), features=some(60).features * 100)
    worlds = [blocks(one, Ledger.in_memory("meter-17", ADD_REMOVE), batch) for one in (held, held.at(slice(1, None)))]
    moved = [float(np.linalg.norm(one - other)) for one, other in zip(*worlds, strict=True)]
    assert sorted(moved)[:-1] == [0.0] * (len(moved) - 1)
    assert 0.69 < max(moved) <= 0.7


@pytest.mark.usefixtures("quiet")
def test_what_cannot_pay_is_not_summed_whatever_the_batch() -> None:
    """Each record is in one release, whatever blocks are made of them at later starts."""
    held, ledger = some(60), Ledger.in_memory("meter-17", ADD_REMOVE)
    total = np.zeros(FEATURES * 2)
    for batch, of in ((26, 60), (14, 60), (10, 60), (8, 30)):
        before = ledger.spending().charges
        released = blocks(held, ledger, batch, of)
        total += sum(part for slot, part in enumerate(released) if part is not None and slot >= before)
    once = blocks(held, Ledger.in_memory("meter-17", ADD_REMOVE), 60)[0]
    assert once is not None
    np.testing.assert_allclose(total, once, atol=1e-3)
    assert ledger.spending().epsilon <= 1.0


def test_a_record_is_published_once_whatever_becomes_of_the_file() -> None:
    ledger, law = Ledger.in_memory("meter-17", REPLACE_ONE), scheme("privunit", FEATURES, 2, 1.0)
    held = some(8)
    for start in range(4):
        held = joined(some(10, seed=start + 5), held) if start else held
        terms = RecordTerms("golf", law, "declared")
        vault = build(records=held, kernel=None, terms=terms, ledger=ledger, noise=OperatingSystemNoise())
        answers = [vault.answer(Query("golf", "record", slot, np.empty(0))) for slot in range(20)]
        refused = [answer.reason for answer in answers if isinstance(answer, Refused)]
        assert refused == ["record"] * 12
    assert ledger.spending().charges == ledger.spending().releases == 8
    assert ledger.spending().epsilon <= 1.0


def learners(records: Records, ledger: Ledger, *order: str) -> None:
    """One learner after another at the same ledger, by hand, each as long as it is answered."""
    terms: dict[str, RecordTerms | GradientTerms] = {
        "golf": RecordTerms("golf", scheme("laplace", FEATURES, 2, 1.0), "declared"),
        "blocks": GradientTerms("without-replacement", 2, 1.0, sampling="blocks", batch=10, of=40),
    }
    for name in order:
        kernel = Softmax(FEATURES, 2)
        vault = build(records=records, kernel=kernel, terms=terms[name], ledger=ledger, noise=OperatingSystemNoise())
        kind, point = ("record", np.zeros(0)) if name == "golf" else ("gradient", np.zeros(kernel.size))
        for slot in range(8):
            vault.answer(Query(terms[name].learner, kind, slot, point))


@pytest.mark.parametrize("before, then", [("golf", "blocks"), ("blocks", "golf")])
def test_no_learner_follows_one_that_numbers_records_otherwise(tmp_path: Path, before: str, then: str) -> None:
    """Or the budget of each record would be spent twice, under two numbers."""
    path = tmp_path / "ledger.db"
    Ledger.create(path, "meter-17", REPLACE_ONE)
    ledger = opened(path)
    learners(some(40), ledger, before)
    spent = ledger.spending()
    assert spent.charges > 0
    with pytest.raises(PrivacyError, match=r"restore learner\.name, or have the fleet sign a task"):
        learners(some(40), ledger, then)
    assert ledger.spending() == spent
    learners(some(40), ledger, before)
    ledger.close()
    again = opened(path)
    with pytest.raises(PrivacyError, match="numbers them differently"):
        learners(some(40), again, then)
    again.take_up(Mandate(1, REPLACE_ONE))
    learners(some(40), again, then)
    assert again.spending().epsilon <= 1.0, "each is taken for the dearest, and all have paid"


def test_a_learner_that_has_charged_nothing_is_followed_by_any() -> None:
    ledger = Ledger.in_memory("meter-17", REPLACE_ONE)
    for number in (enrol_records, number_by_hash, enrol_records):
        number(some(40), ledger)
    learners(some(40), ledger, "golf")
    assert ledger.spending().charges == 8
