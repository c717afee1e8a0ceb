"""Schedule of a device that learns in rounds, decided in public before it starts."""

from dataclasses import dataclass

BEATS_PER_PHASE = 2
"""Beats per phase; two, so that a device that is behind catches up twice as fast as rounds are planned."""

MAX_BEHIND = 2
"""Rounds by which a kept message may be ahead; a device farther behind continues at its neighbours' round."""


@dataclass(frozen=True, slots=True)
class RoundsSchedule:
    """The public schedule.

    Attributes:
        learner: the name under which it asks the vault.
        size: P.
        period: seconds from round to round.
        steps: number of private rounds, which come first; in all later rounds models are averaged.
        step_size: γ of the first round.
        step_decay: share of γ lost, linearly, by the last private round.
        batch: B, by which sums of gradients are divided; need not be a whole number.
        deadline: periods that a phase waits for neighbours.
    """

    learner: str
    size: int
    period: float
    steps: int
    step_size: float
    step_decay: float
    batch: float
    deadline: float

    def rate(self, turn: int) -> float:
        """Return γ_t of round `turn`."""
        return self.step_size * (1 - self.step_decay * min(1.0, turn / max(1, self.steps - 1)))
