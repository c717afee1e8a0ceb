"""Aims of informed liars: the direction that serves them most, in whichever coordinates others compare."""

import numpy as np
import pytest
from numpy.typing import NDArray
from sottovoce.data import Records
from sottovoce.kernels import kernel_named
from sottovoce.kernels.decentralised.centring import Coordinates
from sottovoce_lab.simulator.informed import AIMS, Aim, build_aim

FEATURES, CLASSES, BIAS = 5, 3, 0.3


@pytest.fixture
def records() -> Records:
    random = np.random.default_rng(7)
    rows = random.normal(size=(40, FEATURES - 1)) / 4
    return Records(np.hstack([rows, np.full((40, 1), BIAS)]), random.integers(CLASSES, size=40))


@pytest.mark.parametrize("name", AIMS)
def test_no_other_direction_of_the_same_length_serves_an_aim_more(name: str, records: Records) -> None:
    """Contributions are bounded in the coordinates of centred records, so the best direction is the one among these."""
    aim = build_aim(name, kernel_named("softmax", FEATURES, CLASSES, 1), records, CLASSES)
    coordinates = Coordinates(np.array([0.5, -0.3, 0.2, 0.1]), BIAS)
    model = np.random.default_rng(1).normal(size=aim.kernel.size)
    best = served(aim, coordinates, model, aim.direction(model, coordinates))
    uncentred = aim.direction(coordinates.from_centred(model))
    assert best > served(aim, coordinates, model, uncentred)
    for direction in np.random.default_rng(2).normal(size=(20, aim.kernel.size)):
        assert best > served(aim, coordinates, model, direction / np.linalg.norm(direction))


def served(aim: Aim, coordinates: Coordinates, model: NDArray[np.float64], direction: NDArray[np.float64]) -> float:
    """Return how much a short move of the centred model raises what the liar wants to raise."""
    raw = coordinates.from_centred(np.stack([model, model + 1e-4 * direction]))
    losses = aim.kernel.loss(raw, aim.features, aim.labels)
    return aim.sign * float(losses[1] - losses[0])
