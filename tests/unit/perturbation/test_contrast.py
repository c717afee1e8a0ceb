"""Scheme for a ridge model: the error that selects it is the error of actual draws."""

import numpy as np
import pytest
from sottovoce.errors import PrivacyError
from sottovoce.perturbation import best, scheme
from sottovoce.perturbation.contrast import best_for_ridge, contrast_error
from sottovoce_lab.simulator.simulated_records import simulate

FEATURES, CLASSES = 12, 5


@pytest.mark.parametrize("name", ["privunit", "krr-privunit"])
@pytest.mark.parametrize("epsilon", [1.0, 6.0])
def test_the_predicted_error_of_contrasts_matches_the_measured_one(name: str, epsilon: float) -> None:
    generator = np.random.default_rng(0)
    count = 40_000
    labels = generator.integers(0, CLASSES, count)
    rows = np.tile(np.full(FEATURES, FEATURES**-0.5), (count, 1))
    how = scheme(name, FEATURES, CLASSES, epsilon)
    decoded = how.decode(simulate(how, rows, labels, generator))
    true = np.where(labels[:, np.newaxis] == np.arange(CLASSES), 1.0, -1.0)[:, :, np.newaxis] * rows[:, np.newaxis]
    off = decoded - true
    off -= off.mean(axis=1, keepdims=True)
    assert (off**2).sum(axis=2).mean() == pytest.approx(contrast_error(how), rel=0.03)


def test_with_two_classes_the_choice_is_the_usual_one() -> None:
    for epsilon in (0.5, 5.0, 50.0):
        assert best_for_ridge(57, 2, epsilon) == best(57, 2, epsilon)


def test_with_ten_classes_the_tensor_stays_best_for_longer() -> None:
    chosen = {epsilon: best_for_ridge(197, 10, epsilon).name for epsilon in (1.0, 5.0, 10.0, 50.0)}
    assert chosen == {1.0: "privunit", 5.0: "privunit", 10.0: "krr-privunit", 50.0: "krr-privunit"}


def test_records_too_wide_for_a_tensor_still_have_a_scheme() -> None:
    assert best_for_ridge(2000, 1000, 5.0).name == "krr-privunit"
    with pytest.raises(PrivacyError):
        best_for_ridge(2**21, 2, 5.0)
