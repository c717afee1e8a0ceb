"""Ledger accounts, from which third parties can recompute the spending without learning anything about the records."""

from collections.abc import Iterable
from typing import Annotated

from msgspec import Meta, Struct

from sottovoce.errors import LedgerError, PrivacyError
from sottovoce.privacy.accounting.event_parser import parse_event
from sottovoce.privacy.ledger.chain import Head, first_link, next_link
from sottovoce.privacy.ledger.charge_totals import ChargeTotals
from sottovoce.privacy.vault import Budget, Ledger, Spending

Hex = Annotated[str, Meta(pattern=r"^([0-9a-f]{2})*$")]


class Charge(Struct, frozen=True, forbid_unknown_fields=True):
    """A charge in a ledger: the query id, the event's terms in canonical form, and the task's stamp, if any."""

    query: Hex
    terms: str
    stamp: str = ""


class Account(Struct, frozen=True, forbid_unknown_fields=True):
    """The account of an entire ledger.

    Attributes:
        owner: the owner's node id.
        epsilon: the budget's ε; None if the budget has no guarantee.
        delta: the budget's δ.
        unit: the budget's privacy unit (`record`, `window` or `device`).
        neighbouring: the budget's neighbouring relation.
        nonce: random bytes that distinguish this ledger from any other ledger of the same device.
        charges: all charges, in order.
        link: the last link in the chain of charges.
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


def build_account(ledger: Ledger) -> Account:
    """Return the current account of a ledger."""
    budget = ledger.own_budget
    charges = tuple(Charge(query.hex(), terms, stamp) for query, terms, stamp in ledger.charges())
    link = ledger.link(len(charges)) or b""
    releases = min(ledger.spending().releases, len(charges))  # a running agent may add charges meanwhile
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
    """Return an account's spending, computed only from its charges, and the head of its chain.

    Raises:
        LedgerError: if the chain is broken, if the cost of a charge is unknown to this version, if there are more
            releases than charges, or if more was spent than the budget allows.
    """
    try:
        budget = Budget(account.epsilon, account.delta, account.unit, account.neighbouring)
        spent = ChargeTotals(budget, None)
        link = _extend_chain(
            first_link(budget.canonical_json(account.owner), bytes.fromhex(account.nonce)), account.charges, spent
        )
    except PrivacyError as error:
        raise LedgerError(f"this account cannot be audited: {error}") from error
    if link.hex() != account.link:
        raise LedgerError(
            "this account's charge chain does not end at its link, because a charge was changed or removed"
        )
    if len({charge.query for charge in account.charges}) != len(account.charges):
        raise LedgerError("this account is invalid: it charges the same query twice")
    if not 0 <= account.releases <= len(account.charges):
        raise LedgerError("this account is invalid: it reports more releases than charges")
    spending = Spending(spent.epsilon(), len(account.charges), account.releases)
    if budget.epsilon is not None and (largest := spent.largest_period_epsilon()) > budget.epsilon:
        raise LedgerError(f"this account has spent ε = {largest:g}, which exceeds its budget of {budget.epsilon:g}")
    return spending, Head(len(account.charges), link)


def epsilon_history(ledger: Ledger, points: int) -> tuple[tuple[int, float], ...]:
    """Return (charge count, ε) pairs at about `points` evenly spaced counts, from 0 to the current count."""
    charges = [(terms, stamp) for _, terms, stamp in ledger.charges()]
    step, spent, history = -(-len(charges) // points) or 1, ChargeTotals(ledger.own_budget, None), [(0, 0.0)]
    for number, (terms, stamp) in enumerate(charges, start=1):
        spent.add(parse_event(terms), stamp)
        if number % step == 0 or number == len(charges):
            history.append((number, spent.epsilon()))
    return tuple(history)


def _extend_chain(link: bytes, charges: Iterable[Charge], spent: ChargeTotals) -> bytes:
    for charge in charges:
        spent.add(parse_event(charge.terms), charge.stamp)
        link = next_link(link, bytes.fromhex(charge.query), charge.terms + charge.stamp)
    return link
