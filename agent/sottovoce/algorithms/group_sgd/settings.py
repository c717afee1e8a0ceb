"""Settings for `group-sgd`: DP-SGD over secure sums."""

from typing import Annotated

from msgspec import Meta

from sottovoce.learning.settings import STEPS, Centre, GradientSettings, LongestPeriod, StepDecay


class GroupSgdSettings(GradientSettings, frozen=True, tag="group-sgd"):
    """Settings for `group-sgd`."""

    steps: Annotated[int, Meta(ge=1, le=100_000, description="secure sums, one after the other")] = STEPS
    step_decay: StepDecay = 0.9
    longest_period: LongestPeriod = 3_600.0
    centre: Centre = None
