"""Settings for `average`, which computes the mean of one vector per device."""

import math
from typing import Annotated

from msgspec import Meta

from sottovoce.learning.settings import Clip, Fanout, LearnerSettings, LongestPeriod, ShareBits
from sottovoce.suggestions import LARGEST, invalid_key


class AverageSettings(LearnerSettings, frozen=True, tag="average"):
    """Settings for `average`."""

    clip: Clip = 2.5
    prior: Annotated[
        tuple[float, ...],
        Meta(
            max_length=1_000_000,
            description="a public vector that every device subtracts from its own vector before clipping, and adds to "
            "the mean afterwards; by default 0",
        ),
    ] = ()
    harmonics: Annotated[
        Annotated[int, Meta(ge=1, le=500_000)] | None,
        Meta(
            description="release only the vector's level and this many of its frequencies, 1 + 2 × harmonics "
            "coefficients in total; by default the whole vector"
        ),
    ] = None
    shape_clip: Annotated[
        Annotated[float, Meta(gt=0, le=LARGEST)] | None,
        Meta(description="with harmonics: L2 clip norm of the shape; clip is then the clip norm of the level"),
    ] = None
    fanout: Fanout = 1
    longest_period: LongestPeriod = 3_600.0
    share_bits: ShareBits = 16

    def __post_init__(self) -> None:
        """Check that the prior is finite and that `shape_clip` is set exactly when `harmonics` is."""
        super().__post_init__()
        if not all(math.isfinite(number) for number in self.prior):
            raise invalid_key("prior", "each number must be finite")
        if self.harmonics is not None and self.shape_clip is None:
            raise invalid_key(
                "shape_clip", "required with harmonics: the shape is clipped separately; choose a public threshold"
            )
        if self.harmonics is None and self.shape_clip is not None:
            raise invalid_key("shape_clip", "without harmonics there is no shape; set harmonics, or remove shape_clip")
