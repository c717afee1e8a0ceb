"""DP-NET-FLEET: local steps along a recursively corrected gradient, then gossip (Zhang et al. 2022, with noise).

A device takes K steps v ← v + g(x) - g′ and x ← x - γ v, where g′ is the previous gradient, and then mixes x and v.
Because v begins with g and the corrections telescope, the mean of v over devices is the mean of their last gradients.

The paper computes g and g′ on the same batch, which takes two gradients of each record per step. Here, g′ is the
previous step's release, including its noise, and using it again is post-processing. A step therefore costs one release,
and noise does not accumulate in v.
"""

from dataclasses import dataclass, replace

import numpy as np
from sottovoce.plugin import Floats, Work


@dataclass(frozen=True, slots=True)
class DpNetFleet:
    """Asks for K gradients, then sends models with their directions. `Work.kept` is g′.

    Attributes:
        local_steps: the number of local steps K.
    """

    local_steps: int

    @property
    def widths(self) -> tuple[int, ...]:
        """The maximum number of vectors per message in each phase; see RoundAlgorithm.widths."""
        return 0, 2

    @property
    def questions(self) -> int:
        """The maximum number of gradients per round; see RoundAlgorithm.questions."""
        return self.local_steps

    def question(self, work: Work, phase: int) -> tuple[int, Floats] | None:
        """Return the next gradient to ask for; see RoundAlgorithm.question."""
        steps_done = len(work.answers)
        return None if phase > 0 or steps_done == self.local_steps else (steps_done, work.model)

    def taken(self, work: Work, position: int, gradient: Floats) -> Work:
        """Return the work after a local step along a released gradient; see RoundAlgorithm.taken."""
        direction = correct_gradient(work.direction, gradient, work.kept)
        model = work.model - work.rate * direction
        return replace(work.answered(position, gradient), model=model, direction=direction, kept=gradient)

    def message(self, work: Work, phase: int, recipient: str) -> Floats:
        """Return the model and direction to send; see RoundAlgorithm.message."""
        return np.stack([work.model, work.direction])

    def combined(self, work: Work, phase: int) -> Work:
        """Return the work, with model and direction mixed after the last phase; see RoundAlgorithm.combined."""
        if phase == 0:
            return work
        model, direction = work.mixing.average(np.stack([work.model, work.direction]), work.received[1])
        return replace(work, model=model, direction=direction)


def correct_gradient(tracked: Floats, gradient: Floats, previous: Floats) -> Floats:
    """Return v^k = v^(k-1) + g(x^k) - g(x^(k-1)) in a new array.

    With v^0 = g(x^0), the corrections telescope: before v is mixed, v^k = g(x^k). Mixing with a doubly stochastic
    matrix keeps the mean of v over agents equal to the mean of their latest gradients. In a noise-free run that
    computes both gradients on the same batch, one record moves v twice as far as it moves one gradient.

    Args:
        tracked: v^(k-1), float64[P].
        gradient: g(x^k), including its noise.
        previous: g(x^(k-1)) exactly as included in `tracked`, with its noise; any other value breaks the telescoping.
    """
    return tracked + (gradient - previous)
