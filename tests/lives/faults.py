"""Faults between a device's file and its vault, each planted into the shipped code, and the pairs that find it.

Every one of them has been shipped somewhere: in notebooks, in data loaders, and some in earlier versions of this code.
"""

import logging
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sottovoce.config import DataSection
from sottovoce.data import DataSet, Records
from sottovoce.data.dataset import Table
from sottovoce.data.feed import records as feed_records
from sottovoce.errors import DataError
from sottovoce.node import local_vault
from sottovoce.privacy.ledger.ledger import Ledger
from sottovoce.privacy.vault import numbering
from sottovoce.privacy.vault.programs import gradient

from tests.lives.scenarios import scenarios
from tests.lives.test_lives import play as play_fleet
from tests.neighbours.cases import list_proved_cases
from tests.neighbours.pairs import play as play_vault

Plant = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Fault:
    """A fault, and where it shows.

    Attributes:
        plant: puts the fault into the code.
        case: the case of the neighbour suite that finds it; empty if a fleet does.
        scenario: the scenario of a fleet that finds it; empty if the neighbour suite does.
    """

    plant: Plant
    case: str = ""
    scenario: str = ""

    def play(self, directory: Path, seed: int) -> None:
        """Play one pair of worlds; a world that only stops in one of the two also raises an AssertionError."""
        if self.case:
            play_vault(next(case for case in list_proved_cases() if case.name == self.case), seed)
        else:
            scenario = next(scenario for scenario in scenarios() if scenario.name == self.scenario)
            play_fleet(scenario, directory / str(seed), seed)


def _change_rows(patch: pytest.MonkeyPatch, change: Callable[[Records], Records]) -> None:
    """Change the records that the loader returns, all together."""
    convert = Table.dataset

    def converted(self: Table, *arguments: Any) -> DataSet:
        dataset = convert(self, *arguments)
        return replace(dataset, records=change(dataset.records))

    patch.setattr(Table, "dataset", converted)


def subtract_mean(patch: pytest.MonkeyPatch) -> None:
    """Subtract each column's mean over the file."""
    _change_rows(
        patch,
        lambda raw: replace(raw, features=raw.features - raw.features.mean(axis=0)) if len(raw) else raw,
    )


def scale_by_largest(patch: pytest.MonkeyPatch) -> None:
    """Divide each column by its largest absolute value in the file."""
    _change_rows(
        patch,
        lambda raw: (
            replace(raw, features=raw.features / np.maximum(1, np.abs(raw.features).max(axis=0))) if len(raw) else raw
        ),
    )


def number_labels_by_file(patch: pytest.MonkeyPatch) -> None:
    """Number the labels that the file contains, instead of looking each up."""
    _change_rows(patch, lambda raw: replace(raw, labels=np.unique(raw.labels, return_inverse=True)[1].astype(np.int64)))


def sort_rows(patch: pytest.MonkeyPatch) -> None:
    """Sort the rows, so that one row changes the positions of others."""
    _change_rows(patch, lambda raw: raw.at(np.lexsort(raw.features.T)))


def drop_duplicates(patch: pytest.MonkeyPatch) -> None:
    """Keep only the first of several rows with the same label and sign."""
    _change_rows(
        patch,
        lambda raw: (
            raw.at(np.unique(np.column_stack([raw.labels, raw.features[:, 0] > 0]), axis=0, return_index=True)[1])
            if len(raw)
            else raw
        ),
    )


def drop_outliers(patch: pytest.MonkeyPatch) -> None:
    """Drop rows that are far above the file's median."""

    def near(raw: Records) -> Records:
        lengths = np.abs(raw.features).max(axis=1)
        return raw.at(np.flatnonzero(lengths <= 3 * np.median(lengths))) if len(raw) else raw

    _change_rows(patch, near)


def balance_classes(patch: pytest.MonkeyPatch) -> None:
    """Keep as many rows of each class as the rarest class has."""

    def balanced(raw: Records) -> Records:
        counts = np.bincount(raw.labels, minlength=2)
        rows = [np.flatnonzero(raw.labels == label)[: counts.min()] for label in range(2)]
        return raw.at(np.sort(np.concatenate(rows)))

    _change_rows(patch, balanced)


def require_every_class(patch: pytest.MonkeyPatch) -> None:
    """Refuse to start without a record of the last class."""
    load = local_vault.load_configured_dataset

    def loaded(data: DataSection, table: Table | None = None) -> DataSet:
        dataset = load(data, table)
        if data.classes > 1 and int(dataset.records.labels.max(initial=-1)) != data.classes - 1:
            raise DataError("the last class has no record")
        return dataset

    patch.setattr(local_vault, "load_configured_dataset", loaded)


def log_what_was_clamped(patch: pytest.MonkeyPatch) -> None:
    """Log how many values are large."""
    load = local_vault.load_configured_dataset

    def loaded(data: DataSection, table: Table | None = None) -> DataSet:
        dataset = load(data, table)
        logging.getLogger("sottovoce").info("values-clamped n=%d", (np.abs(dataset.records.features) > 1).sum())
        return dataset

    patch.setattr(local_vault, "load_configured_dataset", loaded)


def compress_enrolled(patch: pytest.MonkeyPatch) -> None:
    """Store enrolled records compressed, so that the file's size depends on their content."""
    pack, unpack = numbering._pack, numbering._unpack

    def packed(records: Records) -> Any:
        stored = pack(records)
        return replace(stored, value=zlib.compress(stored.value))

    patch.setattr(numbering, "_pack", packed)
    patch.setattr(
        numbering, "_unpack", lambda stored, dtype: unpack(replace(stored, value=zlib.decompress(stored.value)), dtype)
    )


def write_progress(patch: pytest.MonkeyPatch) -> None:
    """Write a file beside the ledger whose length follows the number of records of a release."""
    compute = gradient.GradientSum.compute

    def computed(self: Any, query: Any, records: Records) -> Any:
        for ledger in _open_ledgers:
            ledger.with_name("progress").write_bytes(b"." * int(records.labels.sum()))
        return compute(self, query, records)

    open_ledger, _open_ledgers = Ledger.open, set[Path]()

    def opened(path: Path, *arguments: Any) -> Ledger:
        if "home-0" in str(path):
            _open_ledgers.add(path)
        return open_ledger(path, *arguments)

    patch.setattr(Ledger, "open", opened)
    patch.setattr(gradient.GradientSum, "compute", computed)


def skip_empty_releases(patch: pytest.MonkeyPatch) -> None:
    """Say that there is nothing to release if no record takes part, instead of releasing noise."""
    compute = gradient.GradientSum.compute

    def computed(self: Any, query: Any, records: Records) -> Any:
        if not len(records):
            raise DataError("there are no records")
        return compute(self, query, records)

    patch.setattr(gradient.GradientSum, "compute", computed)


def fill_gaps_from_other_days(patch: pytest.MonkeyPatch) -> None:
    """Fill a missing half hour with its mean over all days in the store."""

    def filled(path: Path, days: Any, first: int) -> Table:
        energy = np.where(days >= 0, days, 0).sum(axis=0) / 1000
        known = (days >= 0).any(axis=0)
        means = (energy * known).sum(axis=0) / np.maximum(1, known.sum(axis=0))
        used = np.flatnonzero(known.any(axis=1))
        rows = np.where(known, energy, means)[used], np.zeros(len(used), dtype=np.int64)
        return Table(name="filled", rows=rows, classes=2, windows=first + used, origin=str(path))

    patch.setattr(feed_records, "_profile_table", filled)


def need_every_meter(patch: pytest.MonkeyPatch) -> None:
    """Use a half hour only if every meter that the store has ever seen has a reading."""
    read = feed_records._profile_table

    def of_all(path: Path, days: Any, first: int) -> Table:
        return read(path, np.where((days >= 0).all(axis=0), days, -1), first)

    patch.setattr(feed_records, "_profile_table", of_all)


FAULTS: dict[str, Fault] = {
    "subtract_mean": Fault(subtract_mean, case="clipd2p record add-remove"),
    "scale_by_largest": Fault(scale_by_largest, case="clipd2p record replace-one"),
    "number_labels_by_file": Fault(number_labels_by_file, case="clipd2p record replace-one"),
    "sort_rows": Fault(sort_rows, case="golf record replace-one"),
    "drop_duplicates": Fault(drop_duplicates, case="clipd2p record add-remove"),
    "drop_outliers": Fault(drop_outliers, case="clipd2p record replace-one"),
    "balance_classes": Fault(balance_classes, case="clipd2p record add-remove"),
    "require_every_class": Fault(require_every_class, scenario="clipd2p"),
    "log_what_was_clamped": Fault(log_what_was_clamped, scenario="clipd2p"),
    "compress_enrolled": Fault(compress_enrolled, scenario="golf"),
    "write_progress": Fault(write_progress, scenario="clipd2p mixing=pairwise"),
    "skip_empty_releases": Fault(skip_empty_releases, case="clipd2p window add-remove"),
    "fill_gaps_from_other_days": Fault(fill_gaps_from_other_days, scenario="feed loads, ledger by day"),
    "need_every_meter": Fault(need_every_meter, scenario="feed loads, ledger by day"),
}
