"""Estimators: they follow scikit-learn's interface, and warn if a guarantee does not hold."""

import math
import warnings
from typing import Any

import numpy as np
import pytest
import sottovoce
import sottovoce_lab as lab
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.utils.estimator_checks import check_estimator

QUICK: dict[str, Any] = {"agents": 3, "cycles": 10, "settings": {"learner.steps": 5}}
THREE_CLASSES_IN_THE_PLANE = "the default transform keeps only the direction of a record"


@pytest.mark.slow
@pytest.mark.parametrize(
    "estimator, exceptions",
    [
        (lab.FleetClassifier(**QUICK), {"check_classifiers_train": THREE_CLASSES_IN_THE_PLANE}),
        (lab.FleetRegressor(**QUICK), {}),
    ],
)
def test_scikit_learn_s_own_checks_pass(estimator: Any, exceptions: dict[str, str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the checks set no bounds, and skip uninstalled packages
        result = check_estimator(estimator, expected_failed_checks=exceptions)
    assert {check["check_name"] for check in result if check["status"] == "xfail"} == set(exceptions)
    assert sum(check["status"] == "passed" for check in result) > 40


def test_a_range_computed_from_the_records_causes_a_warning() -> None:
    images, digits = load_digits(return_X_y=True)
    with pytest.warns(lab.PrivacyWarning, match="bounds"):
        lab.FleetClassifier(**QUICK).fit(images[:200], digits[:200])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lab.FleetClassifier(bounds=(0, 16), **QUICK).fit(images[:200], digits[:200])


@pytest.mark.slow
def test_a_fleet_learns_digits_and_reports_its_guarantee() -> None:
    images, digits = load_digits(return_X_y=True)
    train, test, expected, truth = train_test_split(images, digits, random_state=0)
    fleet = clone(lab.FleetClassifier(bounds=(0, 16), classes=range(10))).fit(train, expected)
    assert fleet.score(test, truth) > 0.8
    assert (fleet.privacy_["epsilon"], fleet.privacy_["status"]) == (2.0, "proved")


def test_what_is_read_off_the_records_is_not_proved() -> None:
    images, digits = load_digits(return_X_y=True)
    fleet = lab.FleetClassifier(bounds=(0, 16), **QUICK).fit(images[:200], digits[:200])
    assert fleet.privacy_["status"] == "not proved"
    with pytest.warns(lab.PrivacyWarning):
        fleet = lab.FleetClassifier(classes=range(10), **QUICK).fit(images[:200], digits[:200])
    assert (fleet.privacy_["status"], fleet.privacy_["epsilon"]) == ("refuted", None)
    with pytest.raises(ValueError, match="classes"):
        lab.FleetClassifier(bounds=(0, 16), classes=range(9), **QUICK).fit(images[:200], digits[:200])
    with pytest.raises(sottovoce.SottovoceError, match="bounds"):
        lab.FleetClassifier(bounds=(6, -6), **QUICK).fit(images[:200], digits[:200])


def test_a_fleet_fits_a_line() -> None:
    rng = np.random.default_rng(0)
    features = rng.uniform(-1, 1, (500, 3))
    line = features @ [2.0, -1.0, 0.5] + 1.0
    fleet = lab.FleetRegressor(bounds=(-1, 1), target_bounds=(-3, 5), epsilon=math.inf, agents=4).fit(features, line)
    assert fleet.score(features, line) > 0.95
