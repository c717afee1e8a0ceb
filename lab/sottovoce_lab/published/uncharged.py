"""A vault without a ledger, for simulations of variants as published, whose charges are infinite anyway."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sottovoce.errors import InternalError
from sottovoce.privacy.api import PrivacyStatement, Query, Refused
from sottovoce.privacy.vault.vault import VaultContext


@dataclass(frozen=True, slots=True)
class UnchargedVault:
    """Answers queries as a vault does, but neither charges nor stores anything; noise must be seeded.

    Attributes:
        context: the components of the vault, of which the ledger is not used.

    Raises:
        InternalError: if the noise is real, or if a query is refused.
    """

    context: VaultContext

    def __post_init__(self) -> None:
        """Refuse real noise, which protects only values that are charged."""
        if not self.context.noise.simulated:
            raise InternalError("a vault without a ledger was given real noise: this is a bug; please report it")

    @property
    def statement(self) -> PrivacyStatement:
        """The guarantee of the whole run."""
        return self.context.statement

    def answer(self, query: Query) -> NDArray[np.float64]:
        """Return the released values, float64[P]."""
        plan = self.context.program.plan(query)
        if isinstance(plan, Refused):
            raise InternalError(f"a simulated query was refused: {plan.explanation}; this is a bug; please report it")
        raw = self.context.program.compute(query, self.context.records)
        values: NDArray[np.float64] = np.ldexp(
            plan.mechanism.apply(raw, self.context.noise).astype(np.float64), plan.mechanism.exponent
        )
        return values
