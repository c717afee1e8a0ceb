"""DP-NET-FLEET: local steps along a recursively corrected gradient, then gossip (Zhang et al. 2022, with noise).

A device takes K steps v ← v + g(x) - g′ and x ← x - γ v, where g′ is the previous gradient; then x and v are mixed. As
v begins with g and the corrections telescope, the mean of v over devices is the mean of their last gradients.

The paper takes g and g′ from the same batch, hence two gradients of each record per step. Here g′ is the previous
step's release, including its noise: using it again is post-processing. So a step costs one release, and noise does not
accumulate in v.
"""

from dataclasses import dataclass, replace

import numpy as np

from sottovoce.algorithms.rounds.public.work import Floats, Work
from sottovoce.kernels.decentralised.tracking import corrected


@dataclass(frozen=True, slots=True)
class DpNetFleet:
    """Implements Algorithm: takes K gradients, then sends models with their directions. `Work.kept` is g′.

    Attributes:
        local_steps: K.
    """

    local_steps: int

    @property
    def widths(self) -> tuple[int, ...]:
        """See Algorithm.widths."""
        return 0, 2

    @property
    def questions(self) -> int:
        """See Algorithm.questions."""
        return self.local_steps

    def question(self, work: Work, phase: int) -> tuple[int, Floats] | None:
        """See Algorithm.question."""
        done = len(work.answers)
        return None if phase > 0 or done == self.local_steps else (done, work.model)

    def taken(self, work: Work, position: int, gradient: Floats) -> Work:
        """See Algorithm.taken."""
        direction = corrected(work.direction, gradient, work.kept)
        model = work.model - work.rate * direction
        return replace(work.answered(position, gradient), model=model, direction=direction, kept=gradient)

    def message(self, work: Work, phase: int, recipient: str) -> Floats:
        """See Algorithm.message."""
        return np.stack([work.model, work.direction])

    def combined(self, work: Work, phase: int) -> Work:
        """See Algorithm.combined."""
        if phase == 0:
            return work
        model, direction = work.mixing.average(np.stack([work.model, work.direction]), work.received[1])
        return replace(work, model=model, direction=direction)
