"""Results of trivial rules, and the warning for a fleet below them."""

import numpy as np
import pytest
from sottovoce.data import Records
from sottovoce_lab.testbed.baselines import Baselines, compute_baselines
from sottovoce_lab.testbed.measure import Errors, Metrics

RNG = np.random.default_rng(3)


def records(count: int, classes: tuple[int, ...] = (0, 1)) -> Records:
    labels = RNG.choice(np.array(classes), count)
    return Records(np.eye(3)[labels] + 0.05 * RNG.normal(size=(count, 3)), labels.astype(np.int64))


def test_a_device_with_both_classes_exceeds_one_with_a_single_class() -> None:
    test = records(200)
    both, one = compute_baselines([records(40)], test), compute_baselines([records(40, (0,))], test)
    assert both is not None
    assert one is not None
    assert both.own_data == 1.0
    assert one.own_data == pytest.approx((test.labels == 0).mean())
    assert both.majority_class == one.majority_class == max(one.own_data, 1 - one.own_data)


def test_devices_without_records_do_not_count() -> None:
    result = compute_baselines([records(0), records(40), records(0)], records(50))
    assert result is not None
    assert result.own_data == 1.0
    assert compute_baselines([records(0)], records(50)) is None
    assert compute_baselines([records(5)], records(0)) is None


def test_only_results_below_a_baseline_cause_a_warning() -> None:
    rules = Baselines(0.6, 0.8)
    assert rules.warnings(Metrics(0.9, 0.9, 0.9, 0.1), "local") == []
    (alone,) = rules.warnings(Metrics(0.7, 0.7, 0.7, 0.1), "local")
    assert alone.startswith("accuracy 0.700 is below 0.800, which a device reaches alone")
    assert "the noise costs more" in alone
    assert len(rules.warnings(Metrics(0.5, 0.5, 0.5, 0.1), "none")) == 2
    assert rules.warnings(Errors(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0), "local") == []
