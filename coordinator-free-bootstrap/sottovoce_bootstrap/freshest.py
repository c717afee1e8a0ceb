"""The view rule of NewsCast: of all candidates keep the freshest, and few of one neighbourhood of the Internet."""

import random
from collections import Counter
from collections.abc import Iterable

from sottovoce_bootstrap.contact import Network
from sottovoce_bootstrap.sightings import Sighting

PER_PREFIX = 2
"""Devices of one IPv4 /24 or IPv6 /48 of the global Internet in one view: addresses are cheap, networks are not."""


def freshest(candidates: Iterable[Sighting], size: int, rng: random.Random) -> list[Sighting]:
    """The freshest candidates, at most `size`, all of different devices, the freshest first; equals in random order."""
    shuffled = list(candidates)
    rng.shuffle(shuffled)
    shuffled.sort(key=lambda sighting: -sighting.born)
    kept: list[Sighting] = []
    neighbours: Counter[Network] = Counter()
    for sighting in shuffled:
        if len(kept) < size and all(neighbours[network] < PER_PREFIX for network in sighting.networks):
            neighbours.update(sighting.networks)
            kept.append(sighting)
    return kept
