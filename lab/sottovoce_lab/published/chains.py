"""Terms for chains of steps exactly as in Jin, He & Dai (2023), with the paper's noise, charged as infinite.

Either the period is public, or a deep Q-network chooses where each chain ends.
"""

from dataclasses import dataclass

import numpy as np
from sottovoce.data import Records
from sottovoce.errors import InternalError
from sottovoce.kernels import Kernel
from sottovoce.privacy.mechanisms.noise import NoiseSource
from sottovoce.privacy.mechanisms.unproved_point import UnprovedPoint
from sottovoce.privacy.terms.base import unit_records
from sottovoce.privacy.vault import Ledger
from sottovoce.privacy.vault.numbering import enrol_records
from sottovoce.privacy.vault.vault import VaultContext
from sottovoce_papers.jin_2023.private.program import Chain
from sottovoce_papers.jin_2023.private.steps import ChainSteps, StepSizes
from sottovoce_papers.jin_2023.private.terms import chain_count_check

from sottovoce_lab.published.controller import Controller, Terms as ControllerTerms
from sottovoce_lab.published.q_chain import QChain
from sottovoce_lab.published.terms import Claim, check_no_promise


@dataclass(frozen=True, slots=True)
class PublishedChainTerms:
    """Public terms for chains exactly as in the paper, with the paper's noise, charged as infinite.

    Attributes:
        learner: the learner's name.
        claim: the paper's claim.
        sizes: step sizes as printed; models are not projected.
        batch: b, the batch size.
        period: R; 1 for DP-Fully collaborative.
        passes: number of passes over the records.
        multiplier: s / Δ₂, where Δ₂ = max 2ηL/b over a chain; 0 for no noise.
        lipschitz: L, the Lipschitz constant of the loss.
    """

    learner: str
    claim: Claim
    sizes: StepSizes
    batch: int
    period: int
    passes: int
    multiplier: float
    lipschitz: float

    def context(self, records: Records, kernel: Kernel | None, ledger: Ledger, noise: NoiseSource) -> VaultContext:
        """See Terms.context."""
        if kernel is None:
            raise InternalError("the vault for chains was created without a kernel: this is a bug; please report it")
        check_no_promise(self.learner, ledger.budget)
        steps = ChainSteps(kernel, self.sizes, self.batch)
        enrolled = enrol_records(
            unit_records(records, "record"), ledger, chain_count_check(self.learner, self.batch, self.period)
        )
        slots = max(1, self.passes * (len(enrolled) // (self.batch * self.period)))
        mechanisms = tuple(
            UnprovedPoint(kernel.size, self.deviation(slot * self.period + 1), self.learner) for slot in range(slots)
        )
        program = Chain(steps, mechanisms, self.period, self.passes, len(enrolled))
        return VaultContext(enrolled, program, ledger, noise, self.claim.statement(ledger.budget, self.multiplier > 0))

    def deviation(self, first: int) -> float:
        """Return the noise scale s for a chain whose first (and largest) step is the device's step number `first`.

        Steps are numbered from 1.
        """
        return self.multiplier * 2 * self.sizes.schedule(first) * self.lipschitz / self.batch


@dataclass(frozen=True, slots=True)
class QChainTerms:
    """Public terms for the learner that follows the paper exactly.

    Attributes:
        learner: the learner's name.
        claim: the paper's claim.
        sizes: step sizes as printed; models are not projected.
        batch: b, the batch size.
        passes: number of passes over the records.
        multiplier: s / Δ₂, where Δ₂ = max 2ηL/b over a chain; 0 for no noise.
        lipschitz: L, the Lipschitz constant of the loss.
        exploration_steps: number of decisions over which exploration decreases from 1 to 0.1; the paper's n/(2Mb).
    """

    learner: str
    claim: Claim
    sizes: StepSizes
    batch: int
    passes: int
    multiplier: float
    lipschitz: float
    exploration_steps: int

    def context(self, records: Records, kernel: Kernel | None, ledger: Ledger, noise: NoiseSource) -> VaultContext:
        """See Terms.context. One controller decides for all binary models together, using the vault's randomness."""
        if kernel is None:
            raise InternalError("the vault for chains was created without a kernel: this is a bug; please report it")
        check_no_promise(self.learner, ledger.budget)
        enrolled = enrol_records(
            unit_records(records, "record"), ledger, chain_count_check(self.learner, self.batch, 1)
        )
        generator = np.random.default_rng(noise.random_words(4))
        program = QChain(
            steps=ChainSteps(kernel, self.sizes, self.batch),
            controller=Controller.new(ControllerTerms(kernel.size + 1, self.exploration_steps), generator),
            generator=generator,
            deviations=self.multiplier * 2 * self.lipschitz / self.batch,
            passes=self.passes,
            count=len(enrolled),
            name=self.learner,
        )
        statement = self.claim.statement(ledger.budget, self.multiplier > 0)
        return VaultContext(enrolled, program, ledger, noise, statement)
