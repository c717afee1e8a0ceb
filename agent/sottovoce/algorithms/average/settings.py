"""What is configured of the mean of a vector a device."""

from sottovoce.learner_settings import Clip, Fanout, LearnerSettings, LongestPeriod, ShareBits


class AverageSettings(LearnerSettings, frozen=True, tag="average"):
    """The average's."""

    clip: Clip = 2.5
    fanout: Fanout = 1
    longest_period: LongestPeriod = 3_600.0
    share_bits: ShareBits = 16
