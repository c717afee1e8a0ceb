"""What happens in a round of decentralised SGD with momentum: x ← Σ_j w_ij x_j - γ u, with u ← β u + g."""

from dataclasses import dataclass, replace

from sottovoce.algorithms.rounds.public import Work
from sottovoce.algorithms.rounds.public.work import Floats


@dataclass(frozen=True, slots=True)
class Momentum:
    """Models out, one vector a message; meanwhile the gradient. `Work.direction` is u.

    Attributes:
        momentum: β.
    """

    momentum: float
    widths: tuple[int, ...] = (1,)
    questions: int = 1

    def question(self, work: Work, phase: int) -> tuple[int, Floats] | None:
        """See Algorithm."""
        return None if 0 in work.answers else (0, work.model)

    def taken(self, work: Work, position: int, gradient: Floats) -> Work:
        """See Algorithm."""
        return replace(work.answered(position, gradient), direction=self.momentum * work.direction + gradient)

    def message(self, work: Work, phase: int, recipient: str) -> Floats:
        """See Algorithm."""
        return work.model[None]

    def combined(self, work: Work, phase: int) -> Work:
        """See Algorithm."""
        mixed = work.mixing.average(work.model, work.first(0))
        return replace(work, model=mixed - work.rate * work.direction if 0 in work.answers else mixed)
