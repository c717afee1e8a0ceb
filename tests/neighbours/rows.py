"""A record of a world, and whether it is the one in which the two worlds differ."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """Record, and the unit that it belongs to."""

    features: tuple[float, ...]
    label: int
    window: int = 0
    differs: bool = False
