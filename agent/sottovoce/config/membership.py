"""Configuration section for peer discovery."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from sottovoce.invalid_key import invalid_key


class MembershipSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[membership]`: how this device finds other devices."""

    sampling: Annotated[
        Literal["newscast", "static"],
        Meta(
            description="newscast: peers are sampled, starting from the peers under [transport]; static: only the "
            "peers under [transport] are used"
        ),
    ] = "newscast"
    period: Annotated[
        float, Meta(ge=0.05, le=86_400, description="seconds between view exchanges, the same for the whole fleet")
    ] = 60.0
    view_size: Annotated[int, Meta(ge=20, le=100, description="number c of entries in the view")] = 30
    warm_size: Annotated[int, Meta(ge=1, le=12, description="number of sampled peers to which the learner sends")] = 6
    mdns: Annotated[
        bool,
        Meta(
            description="find peers on the local network, and announce this device there; requires sottovoce[discovery]"
        ),
    ] = False
    dns: Annotated[
        Annotated[str, Meta(pattern=r"^[A-Za-z0-9_]([A-Za-z0-9._-]{0,220}[A-Za-z0-9.])?$")] | None,
        Meta(description="domain whose SRV records _sottovoce._tcp list peers; requires sottovoce[discovery]"),
    ] = None

    def __post_init__(self) -> None:
        """Check that static sampling is not combined with peer discovery."""
        if self.sampling == "static" and (self.mdns or self.dns):
            key = "mdns" if self.mdns else "dns"
            raise invalid_key(key, "static sampling uses only the peers under [transport]; choose newscast")
