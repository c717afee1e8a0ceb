"""Settings for the push-sum SGD algorithms."""

import math
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self

from msgspec import Meta
from msgspec.structs import force_setattr, replace

from sottovoce.learning.settings import Centre, Fanout, LongestPeriod, ScheduledSettings, ShareBits, Steps
from sottovoce.suggestions import LARGEST, invalid_key

Mixing = Annotated[
    Literal["pairwise", "push-sum", "contributions"] | None,
    Meta(
        description="how models are combined: by contributions, which each device signs and whose length is bounded; "
        "pairwise, for large or trusted fleets; or by push-sum shares; by default contributions, and push-sum with "
        "fidelity = paper, with quantiles or without noise"
    ),
]
Clipping = Annotated[
    Literal["constant", "decay", "quantile", "automatic"],
    Meta(description="how the threshold changes, starting from `clip`; quantile only with push-sum"),
]
_DISHONEST = 0.0
MAX_CONTRIBUTORS = 1024
"""Largest number of other devices whose contributions a device stores."""
MAX_START = 4096
"""Largest number of parameters of a model that a setting can state."""


class PushSumSettings(ScheduledSettings, frozen=True, tag="push-sum"):
    """Settings for `push-sum` and for the learners that add noise to it."""

    fewer_steps: ClassVar[bool] = True
    only_with: ClassVar[Mapping[str, tuple[str, tuple[str, ...]]]] = {
        **ScheduledSettings.only_with,
        "clip_decay": ("clipping", ("decay",)),
        "clip_quantile": ("clipping", ("quantile",)),
        "contributors": ("mixing", ("contributions",)),
        "dishonest": ("mixing", ("contributions",)),
    }

    steps: Annotated[
        Steps | None,
        Meta(
            description="private gradient releases, one per cycle from the first on, which share the budget; "
            "by default 48, or with contributions up to 144 if devices have many records"
        ),
    ] = None
    longest_period: LongestPeriod = 3_600.0
    fanout: Annotated[
        Fanout | None,
        Meta(description="peers to which a device sends in one cycle, in turn; by default 1, or 2 with contributions"),
    ] = None
    share_bits: Annotated[
        ShareBits | None,
        Meta(
            description="sent values are rounded by at most 2^-share_bits; more bits make messages larger; by default "
            "16; with contributions, only as many as make the rounding 4 times finer than one step's noise; with "
            "fidelity = paper, 40"
        ),
    ] = None
    mixing: Mixing = None
    contributors: Annotated[
        Annotated[int, Meta(ge=2, le=MAX_CONTRIBUTORS)] | None,
        Meta(
            description="contributions: other devices whose contributions a device stores, those with the "
            "lowest hashes of their ids; by default 64, or 1,024 with a live feed, and at most as fit into 32 MiB"
        ),
    ] = None
    dishonest: Annotated[
        float,
        Meta(
            ge=0,
            le=0.25,
            description="contributions: fraction of the fleet that may be dishonest, which a robust mean tolerates; "
            "with 0, every contribution is used, and only its length is bounded",
        ),
    ] = _DISHONEST
    start: Annotated[
        tuple[float, ...],
        Meta(
            max_length=MAX_START,
            description="public model from which the fleet learns only the difference, one number per parameter; by "
            "default the model's own initial values",
        ),
    ] = ()
    clipping: Clipping = "constant"
    clip_decay: Annotated[
        float, Meta(gt=0, le=1, description="decay: ratio of the last step's threshold to `clip`")
    ] = 0.8
    clip_quantile: Annotated[
        float, Meta(gt=0, lt=1, description="quantile: target fraction of gradients below the threshold")
    ] = 0.2

    @property
    def clip_norm(self) -> float:
        """Return C, or C_0 if the threshold changes."""
        return self.clip

    def __post_init__(self) -> None:
        """Check the mixing. The papers use only push-sum; in all other cases the default depends on the settings."""
        super().__post_init__()
        uses_push_sum = self.fidelity == "paper" or self.name == "push-sum" or self.clipping == "quantile"
        if not all(math.isfinite(number) for number in self.start):
            raise invalid_key("start", "each number must be finite")
        if self.mixing is None and uses_push_sum:
            force_setattr(self, "mixing", "push-sum")
        if self.fidelity == "paper" and self.mixing != "push-sum":
            raise invalid_key(
                "mixing", 'fidelity = "paper" mixes by push-sum; remove the key, or set fidelity = "sound"'
            )
        if self.mixing in ("pairwise", "push-sum"):
            for key, default in (("contributors", None), ("dishonest", _DISHONEST)):
                if getattr(self, key) != default:
                    raise invalid_key(key, f'{self.mixing} has no such key; set mixing = "contributions"')
        if self.mixing != "push-sum" and self.clipping == "quantile":
            remedy = 'choose "constant", "decay" or "automatic", or mixing = "push-sum"'
            raise invalid_key("clipping", f"a few dishonest devices could distort the shared threshold; {remedy}")

    def with_defaults(self, *, follows: bool) -> Self:
        """Return the settings with the default mixing, contributions; see LearnerSettings.with_defaults."""
        return self if self.mixing is not None else replace(self, mixing="contributions")


class ClipD2pSettings(PushSumSettings, frozen=True, tag="clipd2p"):
    """Settings for ClipD²P, and for learners that differ from it in their thresholds."""

    only_with: ClassVar[Mapping[str, tuple[str, tuple[str, ...]]]] = {
        **PushSumSettings.only_with,
        "sigma": ("fidelity", ("paper",)),
    }

    default_step_decay: ClassVar[float] = 0.5

    centre: Centre = None
    sigma: Annotated[
        Annotated[float, Meta(ge=0, le=LARGEST)] | None,
        Meta(description="fidelity = paper: the noise scale that the paper specifies instead of an ε"),
    ] = None
