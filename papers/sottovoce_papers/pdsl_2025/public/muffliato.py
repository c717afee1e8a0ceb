"""Muffliato-SGD: a noisy gradient step, then K gossip steps (Cyffers, Even, Bellet & Massoulié 2022, Algorithm 2).

The gradient step is x ← x - γ g(x). The gossip steps are x^(s+1) = (1 + c_s) W x^s - c_s x^(s-1) for s = 0 … K-1, where
c = 0 without acceleration.
"""

from dataclasses import dataclass, replace

from sottovoce.plugin import Floats, Work

from sottovoce_papers.pdsl_2025 import chebyshev


@dataclass(frozen=True, slots=True)
class Muffliato:
    """Computes the gradient in one phase, then exchanges models in K more. `Work.kept` is x^(s-1).

    Attributes:
        coefficients: the public coefficients c_0 … c_(K-1). Any values preserve the mean.
    """

    coefficients: tuple[float, ...]

    @property
    def widths(self) -> tuple[int, ...]:
        """The maximum number of vectors per message in each phase; see RoundAlgorithm.widths."""
        return (0, *(1 for _ in self.coefficients))

    @property
    def questions(self) -> int:
        """The maximum number of gradients per round: 1; see RoundAlgorithm.questions."""
        return 1

    def question(self, work: Work, phase: int) -> tuple[int, Floats] | None:
        """Return the next gradient to ask for; see RoundAlgorithm.question."""
        return None if phase > 0 or 0 in work.answers else (0, work.model)

    def taken(self, work: Work, position: int, gradient: Floats) -> Work:
        """Return the work after the gradient step; see RoundAlgorithm.taken."""
        return replace(work.answered(position, gradient), model=work.model - work.rate * gradient)

    def message(self, work: Work, phase: int, recipient: str) -> Floats:
        """Return the model to send; see RoundAlgorithm.message."""
        return work.model[None]

    def combined(self, work: Work, phase: int) -> Work:
        """Return the work after a phase, with one gossip step after each exchange; see RoundAlgorithm.combined."""
        if phase == 0:
            return work
        mixed = work.mixing.average(work.model, work.first(phase))
        model = chebyshev.step(mixed, work.kept, self.coefficients[phase - 1])
        return replace(work, model=model, kept=work.model)
