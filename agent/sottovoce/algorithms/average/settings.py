"""Settings for `average`, which computes the mean of one vector per device."""

import math
from typing import Annotated

from msgspec import Meta

from sottovoce.data.products import FLEETS, PRODUCTS, PUBLIC_NAMES, RULES
from sottovoce.learning.settings import Clip, Fanout, LearnerSettings, LongestPeriod, ShareBits
from sottovoce.suggestions import LARGEST, invalid_key


class AverageSettings(LearnerSettings, frozen=True, tag="average"):
    """Settings for `average`."""

    clip: Clip = 2.5
    prior: Annotated[
        tuple[float, ...],
        Meta(
            max_length=1_000_000,
            description="public vector that every device subtracts from its own before clipping, and adds to the mean "
            "afterwards; by default 0",
        ),
    ] = ()
    harmonics: Annotated[
        Annotated[int, Meta(ge=1, le=500_000)] | None,
        Meta(
            description="release only the vector's level and this many of its frequencies, 1 + 2 × harmonics numbers; "
            "by default the whole vector"
        ),
    ] = None
    shape_clip: Annotated[
        Annotated[float, Meta(gt=0, le=LARGEST)] | None,
        Meta(description="with harmonics: L2 clip norm of the shape; clip is then the clip norm of the level"),
    ] = None
    products: Annotated[
        tuple[str, ...],
        Meta(
            max_length=len(PRODUCTS),
            description="products of a home's half-hourly loads over a year, in one release: "
            + ", ".join(PRODUCTS)
            + "; needs 48 features, transform = none and at least 365 days in data.windows",
        ),
    ] = ()
    shares: Annotated[
        tuple[Annotated[float, Meta(gt=0, le=1)], ...],
        Meta(
            max_length=len(PRODUCTS),
            description="with products: each one's share of the budget, in their order, divided by the sum; by "
            "default equal",
        ),
    ] = ()
    flags: Annotated[
        tuple[str, ...],
        Meta(
            max_length=len(RULES),
            description="with the product flags: which to count; pv: solar generation, ev: a car charged with 7 kW",
        ),
    ] = tuple(RULES)
    public: Annotated[
        str, Meta(max_length=40, description="with products: name of the public facts from which homes differ")
    ] = PUBLIC_NAMES[-1]
    fleet_size: Annotated[
        int,
        Meta(
            ge=1,
            description="with products: homes for which bounds are chosen, one of " + ", ".join(map(str, FLEETS)),
        ),
    ] = FLEETS[0]
    fanout: Fanout = 1
    longest_period: LongestPeriod = 3_600.0
    share_bits: ShareBits = 16

    def __post_init__(self) -> None:
        """Check that the prior is finite, that `shape_clip` is set exactly when `harmonics` is, and the products."""
        super().__post_init__()
        if not all(math.isfinite(number) for number in self.prior):
            raise invalid_key("prior", "each number must be finite")
        if self.harmonics is not None and self.shape_clip is None:
            raise invalid_key(
                "shape_clip", "required with harmonics: the shape is clipped separately; choose a public threshold"
            )
        if self.harmonics is None and self.shape_clip is not None:
            raise invalid_key("shape_clip", "without harmonics there is no shape; set harmonics, or remove shape_clip")
        if self.products:
            self._check_products()

    def _check_products(self) -> None:
        for key, names, known in (("products", self.products, PRODUCTS), ("flags", self.flags, RULES)):
            unknown = next((name for name in names if name not in known), None)
            if unknown is not None:
                raise invalid_key(key, f"there is no {key[:-1]} {unknown!r}; choose from {', '.join(known)}")
            if len({*names}) < len(names) or not names:
                raise invalid_key(key, "name at least one, and each only once")
        if self.shares and len(self.shares) != len(self.products):
            raise invalid_key(
                "shares", f"there are {len(self.shares)} for {len(self.products)} products; set one per product"
            )
        if self.public not in PUBLIC_NAMES:
            raise invalid_key("public", f"there is no {self.public!r}; choose from {', '.join(PUBLIC_NAMES)}")
        if self.fleet_size not in FLEETS:
            raise invalid_key(
                "fleet_size", f"there are bounds for {', '.join(map(str, FLEETS))} homes; choose the nearest"
            )
        if self.prior or self.harmonics is not None:
            raise invalid_key(
                "products", "products have public facts and harmonics of their own; remove prior and harmonics"
            )
