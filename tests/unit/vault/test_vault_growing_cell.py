"""A secure sum over a feed reads only the days that its charge covers, like every other release."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from sottovoce.data import Records
from sottovoce.kernels.softmax import Softmax
from sottovoce.privacy.accounting.event_parser import parse_event
from sottovoce.privacy.cell import Cell
from sottovoce.privacy.mechanisms.clipped_sum import Batches
from sottovoce.privacy.secure_sum.statements import Statement
from sottovoce.privacy.terms import build
from sottovoce.privacy.terms.cell_gradients import CellGradientTerms
from sottovoce.privacy.vault import Budget, GrowingRecords, Ledger, Mandate, SeededNoise
from sottovoce_lab.auditor.targets.cells import OtherMembers

KERNEL = Softmax(3, 2)
TERMS = CellGradientTerms("group-sgd", 1, 1.0, Cell(3, 6, 1, 0.7, 1), 10)


def accept(statement: Statement) -> None:
    """Accept any statement: the test signs for all other members."""


def days_of_a_sum(last_ended: int, last_stored: int) -> tuple[list[int], tuple[tuple[int, int], ...]]:
    """Return the days whose records take part in a sum, and the days that are charged for it."""
    windows = np.arange(last_stored + 1)
    records = Records(np.ones((len(windows), 3)), windows % 2, windows)
    ledger = Ledger.in_memory("home", Budget(8.0, 1e-5, "window", "add-remove"))
    ledger.take_up(Mandate(1, Budget(1.0, 1e-5, "device", "add-remove"), b"signed"))
    vault = build(
        records=records,
        kernel=KERNEL,
        terms=TERMS,
        ledger=ledger,
        noise=SeededNoise(1),
        growing_records=GrowingRecords(lambda: records, lambda: last_ended),
        verify_signature=accept,
    )
    cell, read = vault._cell, list[int]()
    assert cell is not None

    def raw(point: NDArray[np.float64], rows: Records) -> Batches:
        assert rows.windows is not None
        read.extend(rows.windows.tolist())
        return cell.raw(point, rows)

    vault._cell = replace(cell, raw=raw)
    others = OtherMembers("group-sgd", cell.mechanism, 1, "home")
    others.part(vault, 0, np.ones(KERNEL.size).astype("<f8").tobytes())
    (charge,) = ledger.charges()
    return read, parse_event(charge[1]).units.spans


def test_days_that_have_not_ended_take_no_part() -> None:
    for last_ended in (0, 12, 14):
        assert days_of_a_sum(last_ended, last_stored=14) == ([*range(last_ended + 1)], ((0, last_ended),))
