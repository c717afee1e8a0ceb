"""Account of charges: trusted for their computed total, not for its own statement."""

from typing import Any

import msgspec
import pytest
from sottovoce.errors import LedgerError
from sottovoce.privacy.accounting.events import GaussianSum, UnprovedRelease
from sottovoce.privacy.accounting.units import Units
from sottovoce.privacy.ledger.chain import first_link, next_link
from sottovoce.privacy.vault import Budget, Ledger
from sottovoce.reports.account import Account, Charge, audit_account, build_account

BUDGET = Budget(2.0, 1e-5, "window", "add-remove")


@pytest.fixture
def ledger() -> Ledger:
    ledger = Ledger.in_memory("meter-17", BUDGET)
    for number in range(5):
        assert ledger.charge(bytes([number]) * 32, GaussianSum(10**6, 4000, Units(((number, number + 3),))))
    return ledger


def forge_account(account: Account, **changes: Any) -> Account:
    """Return the account with a change, and with a chain recomputed by an attacker who has the program."""
    changed = msgspec.structs.replace(account, **changes)
    budget = Budget(changed.epsilon, changed.delta, changed.unit, changed.neighbouring)
    link = first_link(budget.canonical_json(changed.owner), bytes.fromhex(changed.nonce))
    for charge in changed.charges:
        link = next_link(link, bytes.fromhex(charge.query), charge.terms + charge.stamp)
    return msgspec.structs.replace(changed, link=link.hex())


def test_an_account_has_the_ledger_s_total(ledger: Ledger) -> None:
    spending, head = audit_account(build_account(ledger))
    assert spending == ledger.spending()
    assert head == ledger.head()
    assert 0 < spending.epsilon < 2.0


def test_the_link_after_each_number_of_charges(ledger: Ledger) -> None:
    assert ledger.link(5) == ledger.head().link
    assert len({ledger.link(number) for number in range(6)}) == 6
    assert ledger.link(6) is None


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"charges": (Charge("00", GaussianSum(10**6, 100).terms),)}, "spent"),
        ({"charges": (Charge("00", UnprovedRelease("none").terms),)}, "spent"),
        ({"charges": (Charge("00", '{"event":"free"}'),)}, "unknown terms"),
        ({"charges": (Charge("00", GaussianSum(1, 9000).terms + " "),)}, "unknown terms"),
        ({"charges": (Charge("00", GaussianSum(1, 9000).terms),) * 2}, "twice"),
        ({"releases": 6}, r"releases.*charges"),
        ({"epsilon": 0.1}, "spent"),
    ],
)
def test_an_impossible_account_is_refused(ledger: Ledger, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(LedgerError, match=message):
        audit_account(forge_account(build_account(ledger), **changes))


def test_an_invalid_budget_is_refused(ledger: Ledger) -> None:
    with pytest.raises(LedgerError, match=r"budget.*valid"):
        audit_account(msgspec.structs.replace(build_account(ledger), epsilon=-1.0))


def test_a_chain_must_end_with_its_link(ledger: Ledger) -> None:
    account = build_account(ledger)
    for changed in (
        msgspec.structs.replace(account, charges=account.charges[:-1]),
        msgspec.structs.replace(account, charges=account.charges[::-1]),
        msgspec.structs.replace(account, owner="meter-18"),
        msgspec.structs.replace(account, nonce="00"),
    ):
        with pytest.raises(LedgerError, match="chain"):
            audit_account(changed)


def test_two_ledgers_of_one_device_are_distinguished() -> None:
    first, second = (Ledger.in_memory("meter-17", BUDGET) for _ in range(2))
    assert first.head() != second.head()
