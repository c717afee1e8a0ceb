"""Settings for the push-sum SGD algorithms."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self

from msgspec import Meta
from msgspec.structs import force_setattr, replace

from sottovoce.learning.settings import Fanout, LongestPeriod, ScheduledSettings, ShareBits, Steps
from sottovoce.suggestions import LARGEST, invalid_key

Mixing = Annotated[
    Literal["pairwise", "push-sum", "contributions"] | None,
    Meta(
        description="how models are combined: contributions signed by each device, which a single device cannot "
        'distort; pairwise, for large or trusted fleets; or push-sum shares. The default is "contributions"; for a '
        'live meter feed it is "pairwise"; with fidelity = paper, with quantiles or without noise it is "push-sum"'
    ),
]
Clipping = Annotated[
    Literal["constant", "decay", "quantile", "automatic"],
    Meta(description="how the threshold changes, starting from `clip`"),
]
_DISHONEST = 0.0


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
            description="number of private gradient releases, one per cycle from the first cycle on; by default 48, or "
            "up to 144 if devices have enough records"
        ),
    ] = None
    longest_period: LongestPeriod = 3_600.0
    fanout: Annotated[
        Fanout | None,
        Meta(description="number of peers contacted in one cycle, in rotation; by default 1, or 2 with contributions"),
    ] = None
    share_bits: Annotated[
        ShareBits | None,
        Meta(
            description="sent values are rounded by at most 2^-share_bits; by default 16; with contributions, as few "
            "bits as one step's noise allows; with fidelity = paper, 40"
        ),
    ] = None
    mixing: Mixing = None
    contributors: Annotated[
        Annotated[int, Meta(ge=2, le=1024)] | None,
        Meta(
            description="contributions: number of other devices whose contributions a device stores; by default 64, "
            "or, if the model is too large for that, as many as fit into 32 MiB"
        ),
    ] = None
    dishonest: Annotated[
        float,
        Meta(
            ge=0,
            le=0.25,
            description="contributions: fraction of devices that a robust mean may exclude as dishonest; with 0, no "
            "device is excluded, but each contribution still counts only up to a bounded length",
        ),
    ] = _DISHONEST
    clipping: Clipping = "constant"
    clip_decay: Annotated[
        float, Meta(gt=0, le=1, description="decay: ratio of the last step's threshold to `clip`")
    ] = 0.8
    clip_quantile: Annotated[
        float, Meta(gt=0, lt=1, description="quantile: target fraction of gradients below the threshold")
    ] = 0.2

    def __post_init__(self) -> None:
        """Check the mixing. The papers use only push-sum; in all other cases the default depends on the settings."""
        super().__post_init__()
        uses_push_sum = self.fidelity == "paper" or self.name == "push-sum" or self.clipping == "quantile"
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
        """Return the settings with the default mixing: pairwise for a feed, which has no last step, else contributions.

        See LearnerSettings.with_defaults.
        """
        if self.mixing is not None:
            return self
        return replace(self, mixing="pairwise" if follows else "contributions")


class ClipD2pSettings(PushSumSettings, frozen=True, tag="clipd2p"):
    """Settings for ClipD²P and the other learners in its paper."""

    only_with: ClassVar[Mapping[str, tuple[str, tuple[str, ...]]]] = {
        **PushSumSettings.only_with,
        "sigma": ("fidelity", ("paper",)),
        "gradient_bound": ("fidelity", ("paper",)),
    }

    default_step_decay: ClassVar[float] = 0.5

    sigma: Annotated[
        Annotated[float, Meta(ge=0, le=LARGEST)] | None,
        Meta(description="fidelity = paper: the noise scale that the paper specifies instead of an ε"),
    ] = None


class AdaD2pSettings(ClipD2pSettings, frozen=True, tag="adad2p"):
    """Settings for AdaD²P."""

    clipping: Clipping = "decay"


class ConstD2pSettings(ClipD2pSettings, frozen=True, tag="constd2p"):
    """Settings for ConstD²P."""

    gradient_bound: Annotated[
        Annotated[float, Meta(gt=0, le=LARGEST)] | None,
        Meta(description="fidelity = paper: G; if not set, it is found in five runs without privacy, as reports state"),
    ] = None
