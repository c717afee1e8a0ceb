"""NewsCast's rule for choosing a view: the freshest candidates, but only a few from each Internet network."""

import random
from collections import Counter
from collections.abc import Iterable

from sottovoce_bootstrap.contact import Network
from sottovoce_bootstrap.sightings import Sighting

PER_PREFIX = 2
"""Maximum number of devices from one IPv4 /24 or IPv6 /48 in a view, because an attacker can get many addresses in one
network more cheaply than addresses in many networks."""


def select_freshest(candidates: Iterable[Sighting], size: int, rng: random.Random) -> list[Sighting]:
    """Return at most `size` of the freshest candidates, freshest first, with ties in random order.

    Candidates that would exceed PER_PREFIX devices in one network are skipped.

    Args:
        candidates: sightings of different devices.
        size: maximum number of sightings to return.
        rng: random number generator for breaking ties.
    """
    shuffled = list(candidates)
    rng.shuffle(shuffled)
    shuffled.sort(key=lambda sighting: -sighting.born)
    selected: list[Sighting] = []
    per_network: Counter[Network] = Counter()
    for sighting in shuffled:
        if len(selected) < size and all(per_network[network] < PER_PREFIX for network in sighting.networks):
            per_network.update(sighting.networks)
            selected.append(sighting)
    return selected
