"""Scheme for a ridge model: the error that selects it is the error of actual draws."""

import numpy as np
import pytest
from sottovoce.errors import PrivacyError
from sottovoce.privacy.perturbation import scheme, select_scheme
from sottovoce.privacy.perturbation.contrast import contrast_error, select_scheme_for_ridge
from sottovoce_lab.simulator.simulated_records import simulate

FEATURES, CLASSES = 12, 5


@pytest.mark.parametrize("name", ["privunit", "krr-privunit"])
@pytest.mark.parametrize("epsilon", [1.0, 6.0])
def test_the_predicted_error_of_contrasts_matches_the_measured_one(name: str, epsilon: float) -> None:
    generator = np.random.default_rng(0)
    count = 40_000
    labels = generator.integers(0, CLASSES, count)
    rows = np.tile(np.full(FEATURES, FEATURES**-0.5), (count, 1))
    candidate = scheme(name, FEATURES, CLASSES, epsilon)
    decoded = candidate.decode(simulate(candidate, rows, labels, generator))
    expected = np.where(labels[:, np.newaxis] == np.arange(CLASSES), 1.0, -1.0)[:, :, np.newaxis] * rows[:, np.newaxis]
    errors = decoded - expected
    errors -= errors.mean(axis=1, keepdims=True)
    assert (errors**2).sum(axis=2).mean() == pytest.approx(contrast_error(candidate), rel=0.03)


def test_with_two_classes_the_choice_is_the_usual_one() -> None:
    for epsilon in (0.5, 5.0, 50.0):
        assert select_scheme_for_ridge(57, 2, epsilon) == select_scheme(57, 2, epsilon)


def test_with_ten_classes_the_tensor_stays_best_for_longer() -> None:
    chosen = {epsilon: select_scheme_for_ridge(197, 10, epsilon).name for epsilon in (1.0, 5.0, 10.0, 50.0)}
    assert chosen == {1.0: "privunit", 5.0: "privunit", 10.0: "krr-privunit", 50.0: "krr-privunit"}


def test_records_too_wide_for_a_tensor_still_have_a_scheme() -> None:
    assert select_scheme_for_ridge(2000, 1000, 5.0).name == "krr-privunit"
    with pytest.raises(PrivacyError):
        select_scheme_for_ridge(2**21, 2, 5.0)
