"""DP-CGA: cross-gradient aggregation (Esfandiari et al. 2021) with clipped, noisy gradients.

The device's own gradient is projected onto the nearest vector g that opposes none of the gradients at the device's
model. The update is v ← β v - γ g, followed by x ← Σ_j w_ij x_j + v.
"""

from dataclasses import dataclass, replace

import numpy as np
from sottovoce.plugin import Floats, Work

from sottovoce_papers.pdsl_2025.projection import project
from sottovoce_papers.pdsl_2025.public.cross import AnswerRotation, gradients


@dataclass(frozen=True, slots=True)
class DpCga:
    """Sends models first and answers second. `Work.kept` is the mixed model, and `Work.direction` is v.

    Attributes:
        rotation: decides which neighbours receive answers.
        momentum: β.
    """

    rotation: AnswerRotation
    momentum: float
    widths: tuple[int, ...] = (1, 1)

    @property
    def questions(self) -> int:
        """The maximum number of gradients per round; see RoundAlgorithm.questions."""
        return self.rotation.answers

    def question(self, work: Work, phase: int) -> tuple[int, Floats] | None:
        """Return the next gradient to ask for; see RoundAlgorithm.question."""
        return self.rotation.question(work, work.first(0)) if phase == 0 else None

    def taken(self, work: Work, position: int, gradient: Floats) -> Work:
        """Return the work after adding a released gradient; see RoundAlgorithm.taken."""
        return work.answered(position, gradient)

    def message(self, work: Work, phase: int, recipient: str) -> Floats:
        """Return the vectors to send: first the model, then the answer to the recipient; see RoundAlgorithm.message."""
        return work.model[None] if phase == 0 else self.rotation.answer(work, recipient)

    def combined(self, work: Work, phase: int) -> Work:
        """Return the work after mixing the models or taking the projected step; see RoundAlgorithm.combined."""
        if phase == 0:
            return replace(work, kept=work.mixing.average(work.model, work.first(0)))
        gradients_by_owner = gradients(work, 1)
        direction = self.momentum * work.direction
        if "own" in gradients_by_owner:
            others = [gradient for peer, gradient in gradients_by_owner.items() if peer != "own"]
            projected = project(gradients_by_owner["own"], np.array(others).reshape(-1, work.model.size))
            direction = direction - work.rate * projected
            work = work.with_facts(gradients=gradients_by_owner, projected=projected)
        return replace(work, model=work.kept + direction, direction=direction)
