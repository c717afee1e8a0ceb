"""Settings for PDSL and the algorithms that it is compared with."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from msgspec import Meta
from sottovoce.plugin import RoundsSettings, invalid_key
from typing_extensions import override

Momentum = Annotated[float, Meta(ge=0, lt=1, description="fraction of the previous direction that is retained")]
Answers = Annotated[
    Annotated[int, Meta(ge=1, le=1000)] | Literal["all"] | None,
    Meta(
        description="gradients released per round, including the device's own; by default all, or 1 for "
        "dp-cga with fidelity = sound"
    ),
]


class DpDpsgdSettings(RoundsSettings, frozen=True, tag="dp-dpsgd"):
    """Settings for DP-DPSGD."""


class CrossSettings(RoundsSettings, frozen=True):
    """Settings for algorithms in which a device also computes gradients at its neighbours' models."""

    sound_answers: ClassVar[Literal["all"] | int] = "all"

    momentum: Momentum = 0.0
    answers: Answers = None

    @property
    def answers_per_round(self) -> Literal["all"] | int:
        """The number of gradients released per round, including the device's own."""
        return self.answers or (self.sound_answers if self.fidelity == "sound" else "all")


class DpCgaSettings(CrossSettings, frozen=True, tag="dp-cga"):
    """Settings for DP-CGA."""

    sound_answers: ClassVar[Literal["all"] | int] = 1  # projection does not reduce noise in the device's own gradient


class PdslSettings(CrossSettings, frozen=True, tag="pdsl"):
    """Settings for PDSL."""

    only_with: ClassVar[Mapping[str, tuple[str, tuple[str, ...]]]] = {
        **CrossSettings.only_with,
        "permutations": ("shapley", ("monte-carlo",)),
    }

    shapley: Annotated[
        Literal["exact", "monte-carlo", "cosine", "uniform"],
        Meta(description="how neighbours' gradients are weighted; cosine and uniform need no public records"),
    ] = "exact"
    permutations: Annotated[int, Meta(ge=2, le=100_000, description="permutations sampled by monte-carlo")] = 100

    @property
    def scores(self) -> str | None:
        """The rule for scoring models on public records, or None if they are not scored; see LearnerSettings.scores."""
        return self.shapley if self.shapley in ("exact", "monte-carlo") else None


class MuffliatoSettings(RoundsSettings, frozen=True, tag="muffliato"):
    """Settings for Muffliato-SGD."""

    only_with: ClassVar[Mapping[str, tuple[str, tuple[str, ...]]]] = {
        **RoundsSettings.only_with,
        "spectral_gap": ("chebyshev", ("true",)),
    }

    gossip_steps: Annotated[int, Meta(ge=1, le=100, description="exchanges per round")] = 3
    chebyshev: Annotated[bool, Meta(description="accelerated gossip")] = False
    spectral_gap: Annotated[
        Annotated[float, Meta(gt=0, le=1)] | None,
        Meta(
            description="public spectral gap 1 - |λ₂| of the fleet's Metropolis matrix, which "
            "testbeds compute; required with chebyshev"
        ),
    ] = None

    def __post_init__(self) -> None:
        """Check that a spectral gap is set if acceleration is enabled."""
        super().__post_init__()
        if self.chebyshev and self.spectral_gap is None:
            raise invalid_key("spectral_gap", "required by chebyshev; set 1 - |λ₂| of the fleet's Metropolis matrix")


class DpNetFleetSettings(RoundsSettings, frozen=True, tag="dp-net-fleet"):
    """Settings for DP-NET-FLEET."""

    local_steps: Annotated[int, Meta(ge=1, le=100, description="steps per round")] = 1

    @property
    @override
    def moves_per_round(self) -> int:
        return self.local_steps
