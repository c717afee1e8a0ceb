"""Schedule of a device that learns in rounds, which is public and fixed before the device starts."""

from dataclasses import dataclass

BEATS_PER_PHASE = 2
"""Number of beats per phase. With two, a device that lags behind catches up twice as fast as rounds are planned."""

MAX_BEHIND = 2
"""Maximum lead, in rounds, of a stored message. A device that lags further skips to its neighbours' round."""


@dataclass(frozen=True, slots=True)
class RoundsSchedule:
    """Public schedule of a device that learns in rounds.

    Attributes:
        learner: learner name in queries to the vault.
        size: number of parameters P.
        period: seconds between rounds.
        steps: number of private rounds, which come first; in all later rounds models are only averaged.
        step_size: γ of the first round.
        step_decay: share of γ lost, linearly, by the last private round.
        batch: B, by which sums of gradients are divided; need not be a whole number.
        deadline: number of periods that a phase waits for neighbours.
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
        """Return γ_t of round t = `turn`."""
        return self.step_size * (1 - self.step_decay * min(1.0, turn / max(1, self.steps - 1)))
