"""Number of a record: unique and permanent; a release reads only charged records."""

import sqlite3
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from sottovoce.data import Records, add_identities, prepare_records
from sottovoce.errors import DataError, InternalError, PrivacyError
from sottovoce.kernels.softmax import Softmax
from sottovoce.privacy.accounting.units import EVERY, Units, overlap
from sottovoce.privacy.api import Query, Refused, Release
from sottovoce.privacy.ledger.mandate import Mandate
from sottovoce.privacy.mechanisms.samplers.discrete_gaussian import DiscreteGaussianSampler
from sottovoce.privacy.perturbation import scheme
from sottovoce.privacy.terms import build
from sottovoce.privacy.terms.gradients import GradientTerms
from sottovoce.privacy.terms.records import RecordTerms
from sottovoce.privacy.vault import Budget, Ledger, OperatingSystemNoise
from sottovoce.privacy.vault.numbering import SPACE, block_bounds, enrol_records, number_by_hash
from sottovoce.privacy.vault.record_selection import select_units
from sottovoce.reports.account import build_account
from sottovoce_papers.jin_2023.private.terms import chain_count_check

ADD_REMOVE, REPLACE_ONE = (Budget(1.0, 1e-5, "record", relation) for relation in ("add-remove", "replace-one"))
FEATURES = 4


def draw_records(count: int, seed: int = 0) -> Records:
    rng = np.random.default_rng(seed)
    return Records(rng.normal(size=(count, FEATURES)), rng.integers(0, 2, count))


def numbers(records: Records, ledger: Ledger) -> dict[bytes, int]:
    """Return each record's number, by its features."""
    hashed = ledger.budget.neighbouring == "add-remove"
    units = (number_by_hash(records, ledger) if hashed else enrol_records(records, ledger)).units
    assert units is not None
    return {row.tobytes(): int(unit) for row, unit in zip(records.features, units, strict=True)}


def join_records(*parts: Records) -> Records:
    return Records(np.concatenate([part.features for part in parts]), np.concatenate([part.labels for part in parts]))


@pytest.fixture(params=[ADD_REMOVE, REPLACE_ONE], ids=lambda budget: budget.neighbouring)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    Ledger.create(tmp_path / "ledger.db", "meter-17", request.param)
    return tmp_path / "ledger.db"


def open_ledger(path: Path) -> Ledger:
    reopened = Ledger.read(path)
    reopened.close()
    return Ledger.open(path, reopened.owner, reopened.budget)


@pytest.mark.parametrize("path", [ADD_REMOVE], indirect=True, ids=["hashed"])
def test_inserting_removing_and_reordering_rows_changes_no_other_number(path: Path) -> None:
    first, new = draw_records(30), draw_records(10, seed=1)
    ledger = open_ledger(path)
    before = numbers(first, ledger)
    ledger.close()
    ledger = open_ledger(path)
    order = np.random.default_rng(2).permutation(25)
    after = numbers(join_records(new, first.at(order)), ledger)
    assert all(after[row] == before[row] for row in after.keys() & before.keys())
    assert not {after[row.tobytes()] for row in new.features} & set(before.values())
    ledger.close()


@pytest.mark.parametrize("path", [ADD_REMOVE], indirect=True, ids=["hashed"])
def test_an_edited_record_has_another_number_until_it_is_restored(path: Path) -> None:
    ledger, sample = open_ledger(path), draw_records(3)
    before = numbers(sample, ledger)
    edited = replace(sample, features=sample.features + np.eye(3, FEATURES) * 1e-12)
    assert not set(numbers(edited, ledger).values()) & set(before.values())
    assert numbers(sample, ledger) == before
    ledger.close()


def test_a_later_transform_changes_no_number(path: Path) -> None:
    ledger, raw = open_ledger(path), draw_records(12)
    numberings = [
        number_by_hash(prepare_records(raw, name, None), ledger).units for name in ("none", "centred-unit", "unit")
    ]
    assert all((units == numberings[0]).all() for units in numberings)  # type: ignore[union-attr]
    ledger.close()


def test_equal_records_share_a_number_or_are_distinguished() -> None:
    twins = join_records(draw_records(2), draw_records(2))
    hashed = number_by_hash(twins, Ledger.in_memory("meter-17", ADD_REMOVE)).units
    assert hashed is not None
    assert hashed[:2].tolist() == hashed[2:].tolist()
    counted = enrol_records(twins, Ledger.in_memory("meter-17", REPLACE_ONE)).units
    assert counted is not None
    assert counted.tolist() == [0, 1, 2, 3]


def test_zero_has_one_sign() -> None:
    plus, minus = Records(np.zeros((1, 2)), np.zeros(1, dtype=int)), Records(-np.zeros((1, 2)), np.zeros(1, dtype=int))
    positive, negative = add_identities(plus).identities, add_identities(minus).identities
    assert positive is not None
    assert negative is not None
    assert (positive == negative).all()


def test_label_and_window_are_part_of_a_record_s_content() -> None:
    sample = draw_records(1)
    windows = np.array([0], dtype=np.int64)
    variants = [sample, replace(sample, labels=sample.labels + 1), replace(sample, windows=windows)]
    assert len({add_identities(variant).identities.tobytes() for variant in variants}) == 3  # type: ignore[union-attr]


def test_numbers_depend_on_the_ledger_s_own_key(tmp_path: Path) -> None:
    sample, results = draw_records(40), []
    for name in ("one.db", "other.db"):
        Ledger.create(tmp_path / name, "meter-17", ADD_REMOVE)
        ledger = open_ledger(tmp_path / name)
        results.append(set(numbers(sample, ledger).values()))
        ledger.close()
    assert not results[0] & results[1]


def test_a_record_is_in_each_block_equally_often() -> None:
    """Over ledger keys: within 6 standard deviations in every block."""
    sample, edges = draw_records(4000), block_bounds(7)
    units = number_by_hash(sample, Ledger.in_memory("meter-17", ADD_REMOVE)).units
    assert units is not None
    assert 0 <= units.min() <= units.max() < SPACE
    counts = np.histogram(units, bins=edges)[0]
    assert counts.sum() == 4000
    assert abs(counts - 4000 / 7).max() < 6 * np.sqrt(4000 / 7)


def rows(records: Records) -> list[bytes]:
    return [row.tobytes() for row in records.features]


def test_enrolled_records_come_from_the_first_start_whatever_the_file_contains_later() -> None:
    ledger, first = Ledger.in_memory("meter-17", REPLACE_ONE), draw_records(6)
    assert rows(enrol_records(first, ledger)) == rows(first)
    for later in (
        first.at(np.array([3, 1])),
        join_records(draw_records(9, seed=8), first),
        draw_records(0),
        draw_records(6, seed=2),
    ):
        sample = enrol_records(later, ledger)
        assert rows(sample) == rows(first)
        assert sample.labels.tolist() == first.labels.tolist()
        assert sample.units is not None
        assert sample.units.tolist() == list(range(6))


def test_a_removed_twin_cannot_be_identified() -> None:
    """D = [v, w] and D' = [w, w], then [w] in both: every slot except the first has the same record."""
    (v, w), later = (draw_records(1, seed=seed) for seed in (1, 2)), draw_records(1, seed=2)
    results = []
    for first in (join_records(v, w), join_records(w, w)):
        ledger = Ledger.in_memory("meter-17", REPLACE_ONE)
        enrol_records(first, ledger)
        results.append(rows(enrol_records(later, ledger)))
    assert results[0][1:] == results[1][1:]
    assert len(results[0]) == len(results[1])


def test_a_refused_start_enrols_nothing() -> None:
    """A chain of two batches of three needs six records: four are refused, and six are enrolled later."""
    ledger, check = Ledger.in_memory("meter-17", REPLACE_ONE), chain_count_check("without-replacement", 3, 2)
    with pytest.raises(DataError, match=r"4 records.*2 batches of 3"):
        enrol_records(draw_records(4), ledger, check)
    assert ledger.numbers.enrolled_records(0) is None
    assert rows(enrol_records(draw_records(6, seed=2), ledger, check)) == rows(draw_records(6, seed=2))
    with pytest.raises(DataError, match=r"6 records.*2 batches of 4"):
        enrol_records(draw_records(8), ledger, chain_count_check("without-replacement", 4, 2))


def test_enrolled_records_survive_a_restart_in_their_original_precision(path: Path) -> None:
    sample = replace(draw_records(5), features=draw_records(5).features.astype(np.float32))
    ledger = open_ledger(path)
    enrol_records(sample, ledger)
    ledger.close()
    ledger = open_ledger(path)
    repeated = enrol_records(replace(draw_records(2), features=draw_records(2).features.astype(np.float32)), ledger)
    assert repeated.features.dtype == np.float32
    assert rows(repeated) == rows(sample)
    ledger.close()


def test_records_with_another_preparation_are_refused() -> None:
    ledger = Ledger.in_memory("meter-17", REPLACE_ONE)
    enrol_records(replace(draw_records(3), prepared="transform none"), ledger)
    for other in (
        replace(draw_records(3), prepared="transform unit"),
        Records(np.zeros((3, 9)), np.zeros(3, dtype=int)),
    ):
        with pytest.raises(PrivacyError, match=r"transform none.*4 features.*\[data\]"):
            enrol_records(other, ledger)


def test_the_key_and_the_list_stay_in_the_ledger(path: Path) -> None:
    ledger = open_ledger(path)
    enrol_records(draw_records(5), ledger)
    document = repr(build_account(ledger))
    assert ledger.numbers.key.hex() not in document
    for (value,) in sqlite3.connect(path).execute("SELECT value FROM enrolled"):
        assert value.hex() not in document
    ledger.close()


@pytest.mark.parametrize("statement", ["UPDATE secret SET key = x'00'", "DELETE FROM enrolled", "DELETE FROM secret"])
def test_neither_key_nor_list_ever_changes(path: Path, statement: str) -> None:
    ledger = open_ledger(path)
    enrol_records(draw_records(5), ledger)
    ledger.close()
    with sqlite3.connect(path) as connection, pytest.raises(sqlite3.IntegrityError, match="append only"):
        connection.execute(statement)


def test_records_without_numbers_are_not_read_unit_by_unit() -> None:
    assert select_units(draw_records(3), EVERY).features.shape == (3, FEATURES)
    with pytest.raises(InternalError, match="without units"):
        select_units(draw_records(3), Units(((0, 1),)))


def test_the_overlap_of_two_sets_of_units() -> None:
    assert overlap(Units(((0, 4), (8, 9))), Units(((3, 8),))) == Units(((3, 4), (8, 8)))
    assert overlap(Units(((0, 4),)), Units(((5, 8),))) is None


# ------------------------------------------------------- past findings, replayed as found, without noise


@pytest.fixture
def no_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DiscreteGaussianSampler, "draw", lambda self, count: np.zeros(count, dtype=np.int64))


def blocks(records: Records, ledger: Ledger, batch: int, of: int = 60) -> list[NDArray[np.float64] | None]:
    terms = GradientTerms("without-replacement", 1, 0.7, sampling="blocks", batch=batch, of=of)
    kernel = Softmax(FEATURES, 2)
    vault = build(records=records, kernel=kernel, terms=terms, ledger=ledger, noise=OperatingSystemNoise())
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
@pytest.mark.usefixtures("no_noise")
def test_removing_a_record_changes_only_one_block(batch: int) -> None:
    sample = replace(draw_records(60), features=draw_records(60).features * 100)
    outcomes = [
        blocks(item, Ledger.in_memory("meter-17", ADD_REMOVE), batch) for item in (sample, sample.at(slice(1, None)))
    ]
    distances = [float(np.linalg.norm(item - other)) for item, other in zip(*outcomes, strict=True)]
    assert sorted(distances)[:-1] == [0.0] * (len(distances) - 1)
    assert 0.69 < max(distances) <= 0.7


@pytest.mark.usefixtures("no_noise")
def test_unaffordable_records_are_not_summed_whatever_the_batch() -> None:
    """Each record is in one release, whatever blocks later starts form."""
    sample, ledger = draw_records(60), Ledger.in_memory("meter-17", ADD_REMOVE)
    total = np.zeros(FEATURES * 2)
    for batch, of in ((26, 60), (14, 60), (10, 60), (8, 30)):
        before = ledger.spending().charges
        released = blocks(sample, ledger, batch, of)
        total += sum(part for slot, part in enumerate(released) if part is not None and slot >= before)
    once = blocks(sample, Ledger.in_memory("meter-17", ADD_REMOVE), 60)[0]
    assert once is not None
    np.testing.assert_allclose(total, once, atol=1e-3)
    assert ledger.spending().epsilon <= 1.0


def test_a_record_is_published_once_whatever_happens_to_the_file() -> None:
    ledger, law = Ledger.in_memory("meter-17", REPLACE_ONE), scheme("privunit", FEATURES, 2, 1.0)
    sample = draw_records(8)
    for start in range(4):
        sample = join_records(draw_records(10, seed=start + 5), sample) if start else sample
        terms = RecordTerms("golf", law, "declared")
        vault = build(records=sample, kernel=None, terms=terms, ledger=ledger, noise=OperatingSystemNoise())
        answers = [vault.answer(Query("golf", "record", slot, np.empty(0))) for slot in range(20)]
        refused = [answer.reason for answer in answers if isinstance(answer, Refused)]
        assert refused == ["record"] * 12
    assert ledger.spending().charges == ledger.spending().releases == 8
    assert ledger.spending().epsilon <= 1.0


def run_learners(records: Records, ledger: Ledger, *order: str) -> None:
    """Run one learner after another on the same ledger, each until it is refused."""
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


@pytest.mark.parametrize("first, second", [("golf", "blocks"), ("blocks", "golf")])
def test_a_learner_with_another_numbering_is_refused(tmp_path: Path, first: str, second: str) -> None:
    """Otherwise, each record's budget could be spent twice, under two numbers."""
    path = tmp_path / "ledger.db"
    Ledger.create(path, "meter-17", REPLACE_ONE)
    ledger = open_ledger(path)
    run_learners(draw_records(40), ledger, first)
    spent = ledger.spending()
    assert spent.charges > 0
    with pytest.raises(PrivacyError, match=r"learner\.name.*task"):
        run_learners(draw_records(40), ledger, second)
    assert ledger.spending() == spent
    run_learners(draw_records(40), ledger, first)
    ledger.close()
    reopened = open_ledger(path)
    with pytest.raises(PrivacyError, match="differently"):
        run_learners(draw_records(40), reopened, second)
    reopened.take_up(Mandate(1, REPLACE_ONE))
    run_learners(draw_records(40), reopened, second)
    assert reopened.spending().epsilon <= 1.0, "each counts as the record charged most, and all have been charged"


def test_a_learner_without_charges_can_be_replaced_by_any() -> None:
    ledger = Ledger.in_memory("meter-17", REPLACE_ONE)
    for number in (enrol_records, number_by_hash, enrol_records):
        number(draw_records(40), ledger)
    run_learners(draw_records(40), ledger, "golf")
    assert ledger.spending().charges == 8
