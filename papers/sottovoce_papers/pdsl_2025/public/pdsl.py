"""PDSL, which weights neighbours' gradients by their Shapley values (arXiv 2503.23726).

The equation numbers are the paper's. Let g̃_{i←j} be the noisy gradient of j's records at i's model. The candidates are
y_ij = x_i - γ g̃_{i←j} (15), with the values φ_ij (16-18) and the weights π_ij (19, 20). The update is
ĝ_i = Σ_j π_ij g̃_{i←j} (21), û_i = α u_i + ĝ_i (22), x̂_i = x_i - γ û_i (23), u_i ← Σ_j w_ij û_j (24) and
x_i ← Σ_j w_ij x̂_j (25).
"""

from dataclasses import dataclass, replace

import numpy as np
from sottovoce.plugin import Floats, Work

from sottovoce_papers.pdsl_2025.public.cross import AnswerRotation, gradients
from sottovoce_papers.pdsl_2025.public.weighing import GradientWeighting


@dataclass(frozen=True, slots=True)
class Pdsl:
    """Sends models, then answers, then (û, x̂). `Work.direction` is u.

    Attributes:
        rotation: decides which neighbours receive answers.
        weighing: computes the gradient weights.
        momentum: α.
    """

    rotation: AnswerRotation
    weighing: GradientWeighting
    momentum: float
    widths: tuple[int, ...] = (1, 1, 2)

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
        """Return the vectors to send in this phase; see RoundAlgorithm.message."""
        match phase:
            case 0:
                return work.model[None]
            case 1:
                return self.rotation.answer(work, recipient)
            case _:
                return np.stack([work.direction, work.model])

    def combined(self, work: Work, phase: int) -> Work:
        """Return the work after a phase: unchanged, after the step, or after mixing; see RoundAlgorithm.combined."""
        match phase:
            case 0:
                return work
            case 1:
                return self._take_step(work)
            case _:
                own = np.stack([work.direction, work.model])
                direction, model = work.mixing.average(own, work.received[2])
                return replace(work, direction=direction, model=model)

    def _take_step(self, work: Work) -> Work:
        gradients_by_owner = gradients(work, 1)
        direction = self.momentum * work.direction
        if gradients_by_owner:
            stack = np.array(list(gradients_by_owner.values()))
            result = self.weighing(work.model, stack, work.rate, work.round)
            direction = direction + result.weights @ stack
            work = work.with_facts(gradients=gradients_by_owner, **result.facts(list(gradients_by_owner)))
        return replace(work, direction=direction, model=work.model - work.rate * direction)
