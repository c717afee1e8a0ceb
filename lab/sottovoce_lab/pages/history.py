"""A device's history, charge by charge from its ledger, and its agent's current state."""

from pathlib import Path

from sottovoce.errors import NetworkError
from sottovoce.node.control import STATUS_SCHEMA, ask
from sottovoce.node.state_directory import snapshot, state_files
from sottovoce.reports.account import epsilon_history

from sottovoce_lab.pages.device import History

_POINTS = 100


def read_history(state: Path) -> History:
    """Read a device's history from its state directory.

    Raises:
        LedgerError: if the ledger is missing or corrupt.
    """
    with snapshot(state_files(state)[1]) as (ledger, _):
        spending, budget = ledger.spending(), ledger.own_budget
        points = epsilon_history(ledger, _POINTS)
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
        status=status if status is not None and status.get("schema") == STATUS_SCHEMA else None,
    )
