"""What a device's ledger says of its whole life, charge by charge, and its agent of now."""

import math
from pathlib import Path

from sottovoce.accounting.stored import event_of
from sottovoce.accounting.tally import Tally
from sottovoce.agent.assemble import state_files
from sottovoce.agent.control import ask
from sottovoce.agent.glance import glance
from sottovoce.agent.status import SCHEMA
from sottovoce.errors import NetworkError
from sottovoce.observe.pages.device import History
from sottovoce.vault import Ledger

_POINTS = 100


def history_of(state: Path) -> History:
    """The history of a device, from its state directory.

    Raises:
        LedgerError: there is no ledger, or it is damaged.
    """
    with glance(state_files(state)[1]) as (ledger, _):
        spending, budget = ledger.spending(), ledger.budget
        points = _points(ledger)
        owner = ledger.owner
    try:
        status = ask(state, "status")
    except NetworkError:
        status = None
    return History(
        name=state.absolute().name,
        owner=owner,
        unit=budget.unit,
        neighbouring=budget.neighbouring,
        epsilon=budget.epsilon,
        delta=budget.delta,
        charges=spending.charges,
        releases=spending.releases,
        points=points,
        status=status if status is not None and status.get("schema") == SCHEMA else None,
    )


def _points(ledger: Ledger) -> tuple[tuple[int, float], ...]:
    """ε after some hundred charges, the last one among them."""
    terms = [terms for _, terms in ledger.charges()]
    step, tally, points = math.ceil(len(terms) / _POINTS) or 1, Tally(ledger.budget.delta), [(0, 0.0)]
    for number, words in enumerate(terms, start=1):
        tally.add(event_of(words))
        if number % step == 0 or number == len(terms):
            points.append((number, tally.epsilon()))
    return tuple(points)
