"""Statement of a cell's sums: ε if at most a stated number of devices collude, and ε if all others collude."""

import math

from sottovoce.door import PrivacyStatement, Status
from sottovoce.vault.budget import Budget
from sottovoce.vault.cell_sum import CellMechanism
from sottovoce.vault.guarantee import no_guarantee

NO_PROTECTION = "no protection"
MAX_ALONE = 5.0
"""Largest ε for which a statement may claim protection."""


def cell_guarantee(budget: Budget, mechanism: CellMechanism, clip: float) -> PrivacyStatement:
    """Return the guarantee of all sums that the budget pays for."""
    cell = mechanism.cell
    if mechanism.sigma == 0:
        return no_guarantee(budget, f"exact sums of cells, of vectors clipped at {clip:g}")
    alone = mechanism.epsilon_alone(budget.delta)
    most = "no ε at all" if math.isinf(alone) else f"ε = {alone:.3g}"
    return PrivacyStatement(
        unit=budget.unit,
        neighbouring=budget.neighbouring,
        mechanism=(
            f"exact discrete Gaussian on the grid 2^{mechanism.exponent}, σ = {mechanism.sigma * mechanism.step:.6g}, "
            f"in shares of {cell.least} to {cell.most} members, on the sum of their vectors, clipped at {clip:g}, "
            "under masks (X25519, HKDF, ChaCha20) and Shamir's shares"
        ),
        composition=(
            f"Gaussian closed form over {mechanism.rounds} sums at most, of which {cell.spare} may come to nothing"
        ),
        epsilon=budget.epsilon,
        delta=budget.delta,
        threat_model=(
            f"anyone who reads every message, with what at most {cell.colluding} other devices of the fleet know; "
            f"computational. If all others collude, {most}" + (f": {NO_PROTECTION}" if alone > MAX_ALONE else "")
        ),
        status=Status.PROVED,
        reason="docs/explanation/secure-sums.md; docs/decisions/0042-secure-sums.md",
        epsilon_alone=None if math.isinf(alone) else alone,
    )
