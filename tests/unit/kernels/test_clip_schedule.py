"""Clipping thresholds that follow a public rule."""

import math

import numpy as np
import pytest
from sottovoce.errors import ConfigError
from sottovoce.kernels.decentralised import clipping


def test_decay_runs_from_the_first_threshold_to_the_ratio_in_equal_factors() -> None:
    thresholds = [clipping.decayed_threshold(4.0, 0.25, t, 10) for t in range(11)]
    assert thresholds[0] == 4.0
    assert thresholds[5] == pytest.approx(2.0)
    assert thresholds[10] == pytest.approx(1.0)
    factors = np.divide(thresholds[1:], thresholds[:-1])
    np.testing.assert_allclose(factors, factors[0])


def test_settings_that_cannot_be() -> None:
    for initial, ratio, steps in ((0.0, 0.5, 5), (1.0, -1.0, 5), (1.0, 0.5, 0), (math.inf, 0.5, 5)):
        with pytest.raises(ConfigError, match="positive"):
            clipping.decayed_threshold(initial, ratio, 0, steps)
