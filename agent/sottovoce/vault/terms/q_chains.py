"""Terms for chains that a deep Q-network ends: `without-replacement` as published, charged as infinite."""

from dataclasses import dataclass

import numpy as np

from sottovoce.data import Records
from sottovoce.errors import InternalError
from sottovoce.kernels import Kernel
from sottovoce.vault.ledger import Ledger
from sottovoce.vault.noise import NoiseSource
from sottovoce.vault.numbering import enrol_records
from sottovoce.vault.programs.chain_steps import ChainSteps, StepSizes
from sottovoce.vault.terms.base import unit_records
from sottovoce.vault.terms.chains import chain_count_check, check_no_promise
from sottovoce.vault.terms.published import Claim
from sottovoce.vault.vault import VaultContext


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
            raise InternalError("a vault of chains needs a kernel: this is a bug; please report it")
        # Imported here because numpy.random requires 7 MiB, and no other learner has a controller.
        from sottovoce.kernels.decentralised.controller import Controller, Terms
        from sottovoce.vault.programs.q_chain import QChain

        check_no_promise(self.learner, ledger.budget)
        enrolled = enrol_records(
            unit_records(records, "record"), ledger, chain_count_check(self.learner, self.batch, 1)
        )
        generator = np.random.default_rng(noise.random_words(4))
        program = QChain(
            steps=ChainSteps(kernel, self.sizes, self.batch),
            controller=Controller.new(Terms(kernel.size + 1, self.exploration_steps), generator),
            generator=generator,
            deviations=self.multiplier * 2 * self.lipschitz / self.batch,
            passes=self.passes,
            count=len(enrolled),
            name=self.learner,
        )
        statement = self.claim.statement(ledger.budget, self.multiplier > 0)
        return VaultContext(enrolled, program, ledger, noise, statement)
