"""The public schedule of a device that learns in rounds, fixed before the device starts."""

from dataclasses import dataclass

BEATS_PER_PHASE = 2
"""Number of beats per phase. With two, a device that lags behind can catch up at twice the planned pace."""

MAX_BEHIND = 2
"""How many rounds ahead a stored message may be. A device that lags further behind skips to its neighbours' round."""


@dataclass(frozen=True, slots=True)
class RoundsSchedule:
    """The public schedule of a device that learns in rounds.

    Attributes:
        learner: the learner name used in queries to the vault.
        size: the number of parameters P.
        period: the number of seconds between rounds.
        steps: the number of private rounds, which come first; later rounds only average models.
        step_size: γ in the first round.
        step_decay: the fraction by which γ has decreased, linearly, by the last private round.
        batch: B, by which gradient sums are divided; not necessarily an integer.
        deadline: how many periods a phase waits for neighbours.
    """

    learner: str
    size: int
    period: float
    steps: int
    step_size: float
    step_decay: float
    batch: float
    deadline: float

    def rate(self, round_number: int) -> float:
        """Return γ_t for round t = `round_number`."""
        return self.step_size * (1 - self.step_decay * min(1.0, round_number / max(1, self.steps - 1)))
