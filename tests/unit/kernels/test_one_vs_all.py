"""Conversion of labels to signs, and of scores to labels."""

import numpy as np
import pytest
from sottovoce.kernels.linear import copies, predict, targets


def test_two_classes_form_one_model() -> None:
    assert copies(2) == 1
    assert targets(np.array([0, 1, 1]), 2).tolist() == [[-1.0], [1.0], [1.0]]
    weights = np.array([[[1.0, -1.0]], [[-1.0, 1.0]]])
    features = np.array([[2.0, 1.0], [1.0, 2.0], [1.0, 1.0]])
    assert predict(weights, features).tolist() == [[1, 0, 0], [0, 1, 0]]


def test_more_classes_have_one_model_each_and_the_largest_score_wins() -> None:
    assert copies(3) == 3
    assert targets(np.array([2, 0]), 3).tolist() == [[-1.0, -1.0, 1.0], [1.0, -1.0, -1.0]]
    weights = np.array([np.eye(3), np.roll(np.eye(3), 1, axis=0)])
    assert predict(weights, np.diag([3.0, 2.0, 1.0])).tolist() == [[0, 1, 2], [1, 2, 0]]


@pytest.mark.parametrize("classes", [2, 4])
def test_a_perfect_model_predicts_the_labels_signs(classes: int) -> None:
    labels = np.arange(20) % classes
    features = np.eye(classes)[labels]
    weights = (features.T @ targets(labels, classes)).T[np.newaxis]
    assert (predict(weights, features) == labels).all()
