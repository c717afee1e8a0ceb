"""Settings for `gradient-walk`: gossip learning by gradient perturbation."""

from typing import Annotated, Literal

from msgspec import Meta
from sottovoce.plugin import BeginsWalk, LearnerSettings, LongestPeriod, invalid_key


class GradientWalkSettings(LearnerSettings, frozen=True, tag="gradient-walk"):
    """Settings for `gradient-walk`."""

    longest_period: LongestPeriod = 3_600.0
    budget: Annotated[
        Literal["once", "k-times", "halving"],
        Meta(description="how ε is split over visits: once (one visit), k-times (ε/k each), halving (ε/2, ε/4, …)"),
    ] = "once"
    visits: Annotated[int, Meta(ge=1, le=10_000, description="visits with a step, for k-times and halving")] = 1
    begins_walk: BeginsWalk = False

    def __post_init__(self) -> None:
        """Check that `budget` and `visits` are consistent."""
        super().__post_init__()
        if self.budget == "once" and self.visits != 1:
            raise invalid_key("visits", "budget = once allows one visit; choose k-times or halving for more")
