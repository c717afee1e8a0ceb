"""Settings for AdaD²P and ConstD²P."""

from collections.abc import Mapping
from typing import Annotated, ClassVar

from msgspec import Meta
from sottovoce.plugin import Clip, ClipD2pSettings, Clipping
from typing_extensions import override


class AdaD2pSettings(ClipD2pSettings, frozen=True, tag="adad2p"):
    """Settings for AdaD²P."""

    clipping: Clipping = "decay"


class ConstD2pSettings(ClipD2pSettings, frozen=True, tag="constd2p"):
    """Settings for ConstD²P."""

    only_with: ClassVar[Mapping[str, tuple[str, tuple[str, ...]]]] = {
        **ClipD2pSettings.only_with,
        "gradient_bound": ("fidelity", ("paper",)),
    }

    gradient_bound: Annotated[
        Clip | None,
        Meta(
            description="bound G of gradients; if not set, it is measured in five runs without privacy, only with "
            "fidelity = paper in testbeds and simulations"
        ),
    ] = None

    @property
    @override
    def clip_norm(self) -> float:
        """Return the gradient bound, by which the paper's noise is scaled, or C if none is declared."""
        return self.clip if self.gradient_bound is None else self.gradient_bound
