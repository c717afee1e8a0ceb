"""Settings shared by all algorithms in rounds."""

from sottovoce.learning.settings import STEPS, Batch, Deadline, Sampling, ScheduledSettings, Steps


class RoundsSettings(ScheduledSettings, frozen=True):
    """Settings shared by all algorithms in rounds."""

    steps: Steps = STEPS
    sampling: Sampling = "poisson"
    batch: Batch = 128
    deadline: Deadline = 3.0

    @property
    def moves_per_round(self) -> int:
        """The number of steps that a device takes along its own gradients in one round."""
        return 1
