"""NewsCast's view rule: keep the freshest candidates, but only a few from each neighbourhood of the Internet."""

import random
from collections import Counter
from collections.abc import Iterable

from sottovoce_bootstrap.contact import Network
from sottovoce_bootstrap.sightings import Sighting

PER_PREFIX = 2
"""Largest number of devices of one IPv4 /24 or IPv6 /48 in a view: addresses are cheap, networks are not."""


def freshest(candidates: Iterable[Sighting], size: int, rng: random.Random) -> list[Sighting]:
    """Return the freshest candidates, at most `size`, of different devices, freshest first; ties in random order."""
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
