"""Account of a ledger: everything a third party needs to recompute the spending; nothing about a record."""

from collections.abc import Iterable
from typing import Annotated

from msgspec import Meta, Struct

from sottovoce.accounting.stored import event_of
from sottovoce.errors import LedgerError, PrivacyError
from sottovoce.vault.budget import Budget, Spending
from sottovoce.vault.chain import Head, first_link, next_link
from sottovoce.vault.ledger import Ledger
from sottovoce.vault.spent import Spent

Hex = Annotated[str, Meta(pattern=r"^([0-9a-f]{2})*$")]


class Charge(Struct, frozen=True, forbid_unknown_fields=True):
    """Charge: the query's id, the event in canonical form, and its task, if any."""

    query: Hex
    terms: str
    stamp: str = ""


class Account(Struct, frozen=True, forbid_unknown_fields=True):
    """Account of a whole ledger.

    Attributes:
        owner: node id of the owner.
        epsilon: ε of the budget; None where nothing is promised.
        delta: δ of the budget.
        unit: privacy unit of the budget.
        neighbouring: neighbouring relation of the budget.
        nonce: random bytes that distinguish this ledger from any other of the same device.
        charges: all charges, in order.
        link: the last link of their chain.
        releases: number of stored releases.
    """

    owner: str
    epsilon: float | None
    delta: float
    unit: str
    neighbouring: str
    nonce: Hex
    charges: tuple[Charge, ...]
    link: Hex
    releases: int


def account_of(ledger: Ledger) -> Account:
    """Return the present account of a ledger."""
    budget = ledger.own_budget
    charges = tuple(Charge(query.hex(), terms, stamp) for query, terms, stamp in ledger.charges())
    link = ledger.link(len(charges)) or b""
    releases = min(ledger.spending().releases, len(charges))  # the agent may be at work
    return Account(
        owner=ledger.owner,
        epsilon=budget.epsilon,
        delta=budget.delta,
        unit=budget.unit,
        neighbouring=budget.neighbouring,
        nonce=ledger.nonce.hex(),
        charges=charges,
        link=link.hex(),
        releases=releases,
    )


def audit_account(account: Account) -> tuple[Spending, Head]:
    """Return totals of an account, computed from its charges alone, and the head of its chain.

    Raises:
        LedgerError: if the chain is broken, a charge has no known cost here, or more was released or spent than the
            account allows.
    """
    try:
        budget = Budget(account.epsilon, account.delta, account.unit, account.neighbouring)
        spent = Spent(budget, None)
        link = _extend_chain(
            first_link(budget.canonical_json(account.owner), bytes.fromhex(account.nonce)), account.charges, spent
        )
    except PrivacyError as error:
        raise LedgerError(f"this account cannot be audited: {error}") from error
    if link.hex() != account.link:
        raise LedgerError("this account's chain of charges does not end in its link: a charge was altered or left out")
    if len({charge.query for charge in account.charges}) != len(account.charges):
        raise LedgerError("this account charges one query twice, which no ledger does")
    if not 0 <= account.releases <= len(account.charges):
        raise LedgerError("this account says that more was released than was charged")
    spending = Spending(spent.epsilon(), len(account.charges), account.releases)
    if budget.epsilon is not None and (most := spent.largest_period_epsilon()) > budget.epsilon:
        raise LedgerError(f"this account spent ε = {most:g} of a budget of {budget.epsilon:g}")
    return spending, Head(len(account.charges), link)


def epsilon_history(ledger: Ledger, points: int) -> tuple[tuple[int, float], ...]:
    """Return ε after about `points` evenly spread numbers of charges, from 0 to the present number."""
    charges = [(terms, stamp) for _, terms, stamp in ledger.charges()]
    step, spent, found = -(-len(charges) // points) or 1, Spent(ledger.own_budget, None), [(0, 0.0)]
    for number, (terms, stamp) in enumerate(charges, start=1):
        spent.add(event_of(terms), stamp)
        if number % step == 0 or number == len(charges):
            found.append((number, spent.epsilon()))
    return tuple(found)


def _extend_chain(link: bytes, charges: Iterable[Charge], spent: Spent) -> bytes:
    for charge in charges:
        spent.add(event_of(charge.terms), charge.stamp)
        link = next_link(link, bytes.fromhex(charge.query), charge.terms + charge.stamp)
    return link
