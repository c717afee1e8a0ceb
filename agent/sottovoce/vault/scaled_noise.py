"""AdaD²P's release: noise as large as the gradient it hides (ICLR 2024 submission, Section 4). It protects nobody.

The noise's scale is a function of the record, and the length of what is released tells the scale: in d numbers
‖g + N‖ / √(1 + σ²d) misses ‖g‖ by one part in √(2d), whatever σ is. A gradient of 0 gets no noise at all. It is built
here so that the paper can be followed and its claim audited, and it is charged as infinite.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sottovoce.accounting.events import Unproved
from sottovoce.data import Records
from sottovoce.door import PrivacyStatement, Query, Refused, Status
from sottovoce.errors import PrivacyError
from sottovoce.kernels import Kernel
from sottovoce.vault.clipped_sum import Batches, exact
from sottovoce.vault.clipping import clipped_units
from sottovoce.vault.discrete_gaussian import MAX_SIGMA, DiscreteGaussianSampler
from sottovoce.vault.ledger import Ledger
from sottovoce.vault.noise import NoiseSource
from sottovoce.vault.programs import GradientSum, Plan
from sottovoce.vault.vault import Room, Vault

_EXPONENT = -20
_NAME = "adad2p"


@dataclass(frozen=True, slots=True)
class ScaledTerms:
    """What AdaD²P asks of its vault, all of it public.

    Attributes:
        sigma: σ: the noise has a standard deviation of σ‖g‖ a number.
        epsilon: ε that the paper claims for the whole run.
        delta: δ that it claims.
    """

    sigma: float
    epsilon: float
    delta: float


@dataclass(frozen=True, slots=True)
class ScaledNoise:
    """A sum of gradients g, unclipped, plus discrete Gaussian noise of scale σ‖g‖.

    Attributes:
        size: numbers in a release, P.
        sigma: σ.
        exponent: the grid step is 2**exponent.
    """

    size: int
    sigma: float
    exponent: int = _EXPONENT

    def apply(self, raw: Batches, noise: NoiseSource) -> NDArray[np.int64]:
        """See Mechanism.apply; `raw` holds batches float64[n, P]. Noise beyond 2^26 steps is drawn more coarsely."""
        total = np.zeros(self.size, dtype=np.int64)
        for rows in raw:
            total += np.add.reduce(clipped_units(rows, 2.0**self.exponent, None), axis=0).astype(np.int64)
        scale = round(self.sigma * math.sqrt(math.fsum(number * number for number in total.astype(np.float64))))
        if scale == 0:
            return total
        coarser = max(0, scale.bit_length() - MAX_SIGMA.bit_length() + 1)
        return total + (DiscreteGaussianSampler(scale >> coarser, noise).draw(self.size) << coarser)


@dataclass(frozen=True, slots=True)
class ScaledGradientSum:
    """Answers the queries that GradientSum answers.

    Attributes:
        sums: checks and computes.
        mechanism: noise of every release.
    """

    sums: GradientSum
    mechanism: ScaledNoise

    def plan(self, query: Query) -> Plan[Batches] | Refused:
        """See GradientSum.plan; the charge is infinite."""
        plan = self.sums.plan(query)
        return plan if isinstance(plan, Refused) else Plan(Unproved(_NAME), self.mechanism)

    def compute(self, query: Query, records: Records) -> Batches:
        """See GradientSum.compute."""
        return self.sums.compute(query, records)


def build_scaled(*, records: Records, kernel: Kernel, terms: ScaledTerms, ledger: Ledger, noise: NoiseSource) -> Vault:
    """A vault that releases as AdaD²P does.

    Args:
        records: the private records.
        kernel: the model whose gradients are summed.
        terms: what will be asked.
        ledger: opened for charging, of a budget that promises no ε.
        noise: the source of randomness.

    Raises:
        PrivacyError: the budget promises an ε.
    """
    if ledger.budget.epsilon is not None:
        raise PrivacyError(
            "AdaD²P's noise grows and shrinks with the gradient, so no ε holds for it and none may be promised: "
            "use `clipd2p`"
        )
    program = ScaledGradientSum(
        GradientSum(kernel, exact(clip=None, size=kernel.size)), ScaledNoise(kernel.size, terms.sigma)
    )
    return Vault(Room(records, program, ledger, noise, _claim(ledger, terms)))


def _claim(ledger: Ledger, terms: ScaledTerms) -> PrivacyStatement:
    return PrivacyStatement(
        unit=ledger.budget.unit,
        neighbouring=ledger.budget.neighbouring,
        mechanism=f"exact discrete Gaussian of scale {terms.sigma:g} ‖g‖ on the unclipped gradient g",
        composition="as published: Abadi et al. 2016, Theorem 1, as if the scale were fixed",
        epsilon=terms.epsilon,
        delta=terms.delta,
        threat_model="local: anybody who reads every message of a device",
        status=Status.REFUTED,
        reason="refuted: the noise's scale is a function of the record; `sottovoce privacy audit --mechanism adad2p`",
    )
