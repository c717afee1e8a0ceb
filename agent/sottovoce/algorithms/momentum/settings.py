"""What is configured of decentralised SGD with momentum."""

from typing import Annotated

from msgspec import Meta

from sottovoce.algorithms.rounds.settings import RoundsSettings


class MomentumSettings(RoundsSettings, frozen=True, tag="dp-dsgdm"):
    """DP-DSGDm's."""

    momentum: Annotated[float, Meta(ge=0, lt=1, description="share of the last direction that is kept, β")] = 0.0
