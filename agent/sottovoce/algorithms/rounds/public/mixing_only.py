"""Rounds after the last private one, which average models without querying the vault."""

from dataclasses import dataclass, replace

from sottovoce.algorithms.rounds.public.work import Floats, Work


@dataclass(frozen=True, slots=True)
class MixingOnly:
    """Only sends and averages models."""

    widths: tuple[int, ...] = (1,)
    questions: int = 0

    def question(self, work: Work, phase: int) -> tuple[int, Floats] | None:
        """Return None, since no gradients are needed; see RoundAlgorithm.question."""
        return None

    def taken(self, work: Work, position: int, gradient: Floats) -> Work:
        """Return the work unchanged; see RoundAlgorithm.taken."""
        return work

    def message(self, work: Work, phase: int, recipient: str) -> Floats:
        """Return the model to send; see RoundAlgorithm.message."""
        return work.model[None]

    def combined(self, work: Work, phase: int) -> Work:
        """Return the work with the models averaged; see RoundAlgorithm.combined."""
        return replace(work, model=work.mixing.average(work.model, work.first(0)))
