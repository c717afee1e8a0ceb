"""Muffliato-SGD: a noisy gradient step, then K steps of gossip (Cyffers, Even, Bellet & Massoulié 2022, Algorithm 2).

x ← x - γ g(x), then x^(s+1) = (1 + c_s) W x^s - c_s x^(s-1) for s = 0 … K-1; c = 0 without acceleration.
"""

from dataclasses import dataclass, replace

from sottovoce.algorithms.rounds.public.work import Floats, Work
from sottovoce.kernels.decentralised import chebyshev


@dataclass(frozen=True, slots=True)
class Muffliato:
    """Implements Algorithm: one phase with the gradient, then K exchanges of models. `Work.kept` is x^(s-1).

    Attributes:
        coefficients: c_0 … c_(K-1), public. Any values preserve the mean.
    """

    coefficients: tuple[float, ...]

    @property
    def widths(self) -> tuple[int, ...]:
        """See Algorithm.widths."""
        return (0, *(1 for _ in self.coefficients))

    @property
    def questions(self) -> int:
        """See Algorithm.questions."""
        return 1

    def question(self, work: Work, phase: int) -> tuple[int, Floats] | None:
        """See Algorithm.question."""
        return None if phase > 0 or 0 in work.answers else (0, work.model)

    def taken(self, work: Work, position: int, gradient: Floats) -> Work:
        """See Algorithm.taken."""
        return replace(work.answered(position, gradient), model=work.model - work.rate * gradient)

    def message(self, work: Work, phase: int, recipient: str) -> Floats:
        """See Algorithm.message."""
        return work.model[None]

    def combined(self, work: Work, phase: int) -> Work:
        """See Algorithm.combined."""
        if phase == 0:
            return work
        mixed = work.mixing.average(work.model, work.first(phase))
        model = chebyshev.step(mixed, work.kept, self.coefficients[phase - 1])
        return replace(work, model=model, kept=work.model)
