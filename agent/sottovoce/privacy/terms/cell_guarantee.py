"""Privacy statement for a cell's sums, with ε for a stated number of colluding devices and ε if all others collude."""

import math

from sottovoce.privacy.accounting.gaussian import format_rounded_up
from sottovoce.privacy.api import PrivacyStatement, Status
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.mechanisms.cell_sum import CellMechanism
from sottovoce.privacy.terms.guarantee import no_guarantee

NO_PROTECTION = "no protection"
MAX_ALONE = 5.0
"""If ε under collusion of all other devices exceeds this value, the statement adds `no protection`."""


def cell_guarantee(budget: Budget, mechanism: CellMechanism, clip: float) -> PrivacyStatement:
    """Return the guarantee for all sums that the budget covers."""
    cell = mechanism.cell
    if mechanism.sigma == 0:
        return no_guarantee(budget, f"exact sums over cells, of vectors clipped at {clip:g}")
    alone = mechanism.epsilon_alone(budget.delta)
    collusion_bound = "no ε holds" if math.isinf(alone) else f"ε = {format_rounded_up(alone)}"
    return PrivacyStatement(
        unit=budget.unit,
        neighbouring=budget.neighbouring,
        mechanism=(
            f"exact discrete Gaussian on the grid 2^{mechanism.exponent}, σ = {mechanism.sigma * mechanism.step:.6g}, "
            f"in shares of {cell.least} to {cell.most} members, on the sum of their vectors, clipped at {clip:g}, "
            "under masks (X25519, HKDF, ChaCha20) and Shamir's shares"
        ),
        composition=(f"Gaussian closed form over at most {mechanism.rounds} sums, of which {cell.spare} may fail"),
        epsilon=budget.epsilon,
        delta=budget.delta,
        threat_model=(
            f"anyone who reads every message and knows all that at most {cell.colluding} other fleet devices know; "
            f"computational security. If all others collude, {collusion_bound}"
            + (f": {NO_PROTECTION}" if alone > MAX_ALONE else "")
        ),
        status=Status.PROVED,
        reason="docs/explanation/secure-sums.md; docs/decisions/0042-secure-sums.md",
        epsilon_alone=None if math.isinf(alone) else alone,
    )
