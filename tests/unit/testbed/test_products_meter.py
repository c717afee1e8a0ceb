"""Errors of a task with products, whose devices release no mean row."""

from pathlib import Path

import numpy as np
import pytest
from sottovoce_lab.testbed.mean_errors import ErrorMeter, create_meter

from tests.street.__main__ import street_plan
from tests.support.loads import draw_street


def test_products_are_measured_in_the_numbers_that_are_released(tmp_path: Path) -> None:
    planned = street_plan(draw_street(4, 0), 1.0, 0, tmp_path)
    meter = create_meter(planned)
    assert isinstance(meter, ErrorMeter)
    profile = planned.family.terms.profile  # type: ignore[attr-defined]
    truth = np.mean([profile.row(records.features, records.windows) for records in planned.raw], axis=0)
    measured = meter.measure_all([truth, truth + 0.5])
    assert measured.rmse_mean == pytest.approx(0.25)
    assert measured.rmse_max == pytest.approx(0.5)
    assert measured.rmse_clip == pytest.approx(0.0), "each block is limited at home"
    assert measured.rmse_prior > 0
