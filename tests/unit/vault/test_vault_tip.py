"""Ledger head for peers: it only increases, and two copies diverge with their first release."""

import shutil
from contextlib import ExitStack, closing
from pathlib import Path

from sottovoce.privacy.accounting.events import GaussianSum
from sottovoce.privacy.accounting.units import Units
from sottovoce.privacy.ledger.budget import StoredRelease
from sottovoce.privacy.vault import Budget, Ledger

BUDGET = Budget(8.0, 1e-5, "record", "add-remove")
EVENT = GaussianSum(10**6, 4000, Units(((0, 3),)))


def query(number: int) -> bytes:
    return bytes([number]) * 32


def charge_query(ledger: Ledger, number: int, value: bytes | None = None) -> None:
    """Charge a query, and store its release if there is one."""
    assert ledger.charge(query(number), EVENT)
    if value is not None:
        ledger.store(query(number), StoredRelease(0, value, False))


def test_the_head_increases_with_every_charge_and_every_release() -> None:
    ledger = Ledger.in_memory("a" * 32, BUDGET)
    tips = [ledger.tip()]
    for number in range(1, 4):
        charge_query(ledger, number)
        tips.append(ledger.tip())
        ledger.store(query(number), StoredRelease(0, b"noise%d.." % number, False))
        tips.append(ledger.tip())
    assert [(tip.charges, tip.released) for tip in tips] == [(0, 0), (1, 0), (1, 1), (2, 1), (2, 2), (3, 2), (3, 3)]
    assert len({tip.mark for tip in tips}) == len(tips)
    assert [ledger.mark(tip.charges, tip.released) for tip in tips] == [tip.mark for tip in tips], (
        "the mark at that time"
    )


def test_unknown_positions_have_no_mark() -> None:
    ledger = Ledger.in_memory("a" * 32, BUDGET)
    charge_query(ledger, 1, b"noise...")
    charge_query(ledger, 2)
    for charges, released in ((3, 1), (2, 2), (2, 3), (-1, 0)):
        assert ledger.mark(charges, released) is None


def test_a_late_release_changes_no_sent_head() -> None:
    """The device died between charge and release, and repeated the query after the next one."""
    ledger = Ledger.in_memory("a" * 32, BUDGET)
    charge_query(ledger, 1)
    charge_query(ledger, 2, b"noise...")
    tip = ledger.tip()
    ledger.store(query(1), StoredRelease(0, b"late....", False))
    assert ledger.tip() == tip


def test_copies_make_the_same_charges_and_different_marks(tmp_path: Path) -> None:
    paths = [tmp_path / "ledger.db", tmp_path / "copy.db"]
    Ledger.create(paths[0], "a" * 32, BUDGET)
    shutil.copy(*paths)
    with ExitStack() as stack:
        first, second = (stack.enter_context(closing(Ledger.open(path, "a" * 32, BUDGET))) for path in paths)
        for ledger in (first, second):
            charge_query(ledger, 1)
        assert first.tip() == second.tip()
        first.store(query(1), StoredRelease(0, b"noise...", False))
        second.store(query(1), StoredRelease(0, b"another.", False))
        assert first.head() == second.head()
        assert first.tip().mark != second.tip().mark
