"""Size of the ledger: the same for any two data sets of one shape, in the file, in the log and in the day's count."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from sottovoce.data import Records
from sottovoce.errors import LedgerError
from sottovoce.kernels.softmax import Softmax
from sottovoce.privacy.accounting.events import RecordReleased
from sottovoce.privacy.api import Query, Refused
from sottovoce.privacy.ledger.mandate import Mandate
from sottovoce.privacy.perturbation import scheme
from sottovoce.privacy.terms import build
from sottovoce.privacy.terms.records import RecordTerms
from sottovoce.privacy.vault import Budget, Ledger, OperatingSystemNoise, Vault
from sottovoce.privacy.vault.numbering import enrol_records
from sottovoce_papers.jin_2023.private.terms import ChainTerms

from tests.support.ledgers import revert_to_schema_8

OWNER, BUDGET = "meter-17", Budget(1.0, 1e-5, "record", "replace-one")
Data = Callable[[int, int], Records]


def zeros(count: int, features: int) -> Records:
    """Return records that compress to almost nothing."""
    return Records(np.zeros((count, features)), np.zeros(count, dtype=np.int64))


def one_changed(count: int, features: int) -> Records:
    """Return `zeros` with the first record replaced by one that does not compress."""
    records = zeros(count, features)
    records.features[0], records.labels[0] = np.random.default_rng(1).normal(size=features), 1
    return records


def random(count: int, features: int) -> Records:
    """Return records that do not compress at all."""
    rng = np.random.default_rng(2)
    return Records(rng.normal(size=(count, features)), rng.integers(0, 2, count))


def extreme(count: int, features: int) -> Records:
    """Return records of very large and very small numbers."""
    values = np.full((count, features), 1e100)
    values[::2] = -5e-324
    return Records(values, np.ones(count, dtype=np.int64))


def sizes(path: Path) -> dict[str, int]:
    return {file.name: file.stat().st_size for file in sorted(path.parent.glob(path.name + "*"))}


def golf(records: Records, ledger: Ledger) -> tuple[Vault, list[Query]]:
    """Return a vault that releases each record once, and the queries."""
    terms = RecordTerms("golf", scheme("laplace", records.features.shape[1], 2, 1.0), "declared")
    vault = build(records=records, kernel=None, terms=terms, ledger=ledger, noise=OperatingSystemNoise())
    return vault, [Query("golf", "record", slot, np.empty(0)) for slot in range(len(records))]


def chains(records: Records, ledger: Ledger) -> tuple[Vault, list[Query]]:
    """Return a vault that releases a model after each batch of one record, and the queries of one pass."""
    kernel = Softmax(records.features.shape[1], 2)
    terms = ChainTerms("without-replacement", step_size=0.5, batch=1, period=1, passes=1)
    vault = build(records=records, kernel=kernel, terms=terms, ledger=ledger, noise=OperatingSystemNoise())
    point = np.zeros(2 * kernel.size)
    return vault, [Query("without-replacement", "chain", slot, point) for slot in range(len(records))]


def life(
    path: Path, records: Records, learner: Callable[[Records, Ledger], tuple[Vault, list[Query]]] = golf
) -> list[object]:
    """Return everything about the ledger's size that can be seen while a learner spends its budget, and later."""
    Ledger.create(path, OWNER, BUDGET)
    ledger = Ledger.open(path, OWNER, BUDGET)
    vault, queries = learner(records, ledger)
    seen: list[object] = [sizes(path), ledger.spending().written_today]
    for query in queries:
        assert not isinstance(vault.answer(query), Refused)
        seen += [sizes(path), ledger.spending().written_today]
    vault.close()
    seen.append(sizes(path))
    ledger = Ledger.open(path, OWNER, BUDGET)
    enrol_records(records, ledger)
    seen += [sizes(path), ledger.spending().written_today]
    ledger.close()
    return seen


@pytest.mark.parametrize("count, features", [(3, 58), (1, 1), (12, 4), (5, 784)])
@pytest.mark.parametrize("neighbour", [one_changed, random, extreme])
@pytest.mark.parametrize("learner", [golf, chains])
def test_every_data_set_of_one_shape_has_a_ledger_of_one_size(
    tmp_path: Path,
    learner: Callable[[Records, Ledger], tuple[Vault, list[Query]]],
    count: int,
    features: int,
    neighbour: Data,
) -> None:
    lives = []
    for name, records in (("zeros", zeros(count, features)), ("neighbour", neighbour(count, features))):
        (tmp_path / name).mkdir()
        lives.append(life(tmp_path / name / "ledger.db", records, learner))
    assert lives[0] == lives[1]


def test_enrolment_does_not_count_towards_the_day(tmp_path: Path) -> None:
    """It happens once a task; otherwise, a device with many records would pause for most of its first day."""
    path = tmp_path / "ledger.db"
    Ledger.create(path, OWNER, BUDGET)
    ledger = Ledger.open(path, OWNER, BUDGET)
    enrol_records(zeros(1000, 58), ledger)
    assert ledger.spending().written_today == 0
    assert ledger.charge(bytes(32), RecordReleased(0, "laplace", 2, 2, 1.0))
    assert 0 < ledger.spending().written_today < 100_000
    ledger.close()


@pytest.mark.parametrize("neighbour", [one_changed, random, extreme])
def test_a_ledger_with_compressed_records_is_upgraded_to_the_same_size(tmp_path: Path, neighbour: Data) -> None:
    lives: list[list[dict[str, int]]] = []
    for name, records in (("zeros", zeros(30, 58)), ("neighbour", neighbour(30, 58))):
        (tmp_path / name).mkdir()
        path = tmp_path / name / "ledger.db"
        life(path, records)
        revert_to_schema_8(path)
        lives.append([])
        for _ in range(2):
            ledger = Ledger.open(path, OWNER, BUDGET)
            stored = enrol_records(zeros(1, 58), ledger)
            np.testing.assert_array_equal(stored.features, records.features)
            np.testing.assert_array_equal(stored.labels, records.labels)
            ledger.close()
            lives[-1].append(sizes(path))
    assert lives[0] == lives[1]


def test_corrupt_compressed_records_are_reported_and_left_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    life(path, random(3, 4))
    revert_to_schema_8(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript("DROP TRIGGER enrolled_UPDATE; UPDATE enrolled SET value = x'00';")
    before = path.read_bytes()
    with pytest.raises(LedgerError, match=r"ledger.*used"):
        Ledger.open(path, OWNER, BUDGET)
    assert path.read_bytes() == before


def test_a_new_task_erases_the_records_of_the_earlier_one(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    Ledger.create(path, OWNER, BUDGET)
    ledger, erased, kept = Ledger.open(path, OWNER, BUDGET), random(20, 58), one_changed(1, 58)
    enrol_records(erased, ledger)
    assert ledger.numbers.enrolled_count == 20
    with closing(sqlite3.connect(path)) as other, pytest.raises(sqlite3.IntegrityError, match="append only"):
        other.execute("DELETE FROM enrolled")
    ledger.take_up(Mandate(1, BUDGET, b"task"))
    assert ledger.numbers.enrolled_count == 0
    enrol_records(kept, ledger)
    ledger.close()
    content = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    eights = range(0, 48, 8)  # a page may end within some of them
    assert any(kept.features[0, start : start + 8].tobytes() in content for start in eights)
    assert not any(row[start : start + 8].tobytes() in content for row in erased.features for start in eights)
    with closing(sqlite3.connect(path)) as other, pytest.raises(sqlite3.IntegrityError, match="append only"):
        other.execute("DELETE FROM enrolled")
