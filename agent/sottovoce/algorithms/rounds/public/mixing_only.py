"""Rounds after the last private one: models are averaged, and the vault is not asked."""

from dataclasses import dataclass, replace

from sottovoce.algorithms.rounds.public.work import Floats, Work


@dataclass(frozen=True, slots=True)
class MixingOnly:
    """Implements Algorithm: only sends models."""

    widths: tuple[int, ...] = (1,)
    questions: int = 0

    def question(self, work: Work, phase: int) -> tuple[int, Floats] | None:
        """See Algorithm.question."""
        return None

    def taken(self, work: Work, position: int, gradient: Floats) -> Work:
        """See Algorithm.taken."""
        return work

    def message(self, work: Work, phase: int, recipient: str) -> Floats:
        """See Algorithm.message."""
        return work.model[None]

    def combined(self, work: Work, phase: int) -> Work:
        """See Algorithm.combined."""
        return replace(work, model=work.mixing.average(work.model, work.first(0)))
