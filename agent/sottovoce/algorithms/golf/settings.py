"""Settings of gossip learning on perturbed records."""

from typing import Annotated, Literal

from msgspec import Meta

from sottovoce.invalid_key import invalid_key
from sottovoce.learner_settings import LearnerSettings, LongestPeriod


class GolfSettings(LearnerSettings, frozen=True, tag="golf"):
    """Golf's."""

    longest_period: LongestPeriod = 3_600.0
    batch: Annotated[int, Meta(ge=1, le=4096, description="published records in one message, at most")] = 128
    perturbation: Annotated[
        Literal["best", "laplace", "privunit", "krr-privunit"],
        Meta(description="how records are perturbed; best: by the public rule"),
    ] = "best"
    capacity: Annotated[
        int, Meta(ge=1, le=1_000_000, description="published records kept, the same for the whole fleet")
    ] = 4096

    def __post_init__(self) -> None:
        """The paper has one perturbation."""
        super().__post_init__()
        if self.fidelity == "paper" and self.perturbation != "best":
            raise invalid_key("perturbation", "to the letter there is one perturbation; leave it out")
