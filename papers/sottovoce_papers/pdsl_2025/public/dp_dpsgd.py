"""DP-DPSGD: decentralised parallel SGD with noisy gradients, in synchronous rounds.

The update is x_i ← Σ_j w_ij x_j - γ g_i(x_i), with the gradient taken at the model before mixing (Lian et al. 2017;
with noise, Xu et al. 2022, whose asynchronous algorithm the PDSL paper runs in rounds).
"""

from dataclasses import dataclass, replace

from sottovoce.plugin import Floats, Work


@dataclass(frozen=True, slots=True)
class DpDpsgd:
    """Sends the model, and asks for the gradient while the models are in transit."""

    widths: tuple[int, ...] = (1,)
    questions: int = 1

    def question(self, work: Work, phase: int) -> tuple[int, Floats] | None:
        """Return the next gradient to ask for; see RoundAlgorithm.question."""
        return None if 0 in work.answers else (0, work.model)

    def taken(self, work: Work, position: int, gradient: Floats) -> Work:
        """Return the work after adding a released gradient; see RoundAlgorithm.taken."""
        return work.answered(position, gradient)

    def message(self, work: Work, phase: int, recipient: str) -> Floats:
        """Return the model to send; see RoundAlgorithm.message."""
        return work.model[None]

    def combined(self, work: Work, phase: int) -> Work:
        """Return the work after mixing and the gradient step; see RoundAlgorithm.combined."""
        model = work.mixing.average(work.model, work.first(0))
        if 0 in work.answers:
            model = model - work.rate * work.answers[0]
        return replace(work, model=model)
