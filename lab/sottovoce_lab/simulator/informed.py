"""Aims of an informed liar, which optimises against the others with the protocol, the models and its own records.

ascent    raises the loss on all records
class     makes models predict the next class for records of the class that is most common among the liar's
trigger   makes models predict class 0 whenever a pattern is in the features: a back door
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sottovoce.data import Records
from sottovoce.errors import UsageError
from sottovoce.kernels.decentralised.centring import Coordinates
from sottovoce.kernels.kernel import Kernel

AIMS = ("ascent", "class", "trigger")
TRIGGERED_CLASS = 0
_TRIGGER_SHARE = 1 / 16
"""Share of the features that the trigger overwrites: four of the digits' 64 pixels."""


@dataclass(frozen=True, slots=True)
class Aim:
    """A direction of the model that serves an informed liar, computed from its own records alone.

    Attributes:
        kernel: the fleet's model.
        features: float64[n, d], on which the loss is computed.
        labels: int64[n], the labels that go with the features.
        sign: 1 to raise the loss, -1 to lower it.
    """

    kernel: Kernel
    features: NDArray[np.float64]
    labels: NDArray[np.int64]
    sign: float

    def direction(self, model: NDArray[np.float64], coordinates: Coordinates | None = None) -> NDArray[np.float64]:
        """Return the direction in which to move a model, float64[P], of length 1, or 0 where the loss is flat.

        Args:
            model: float64[P], in the coordinates of centred records if `coordinates` is given; so is the direction.
            coordinates: the coordinates in which contributions are compared and combined; None for those of records.
        """
        features = self.features if coordinates is None else coordinates.center_records(self.features)
        gradients = self.kernel.gradients(model[np.newaxis], features[np.newaxis], self.labels[np.newaxis])
        gradient: NDArray[np.float64] = self.sign * gradients[0].mean(axis=0)
        length = float(np.linalg.norm(gradient))
        return gradient / length if length > 0 else gradient


def build_aim(name: str, kernel: Kernel | None, records: Records, classes: int) -> Aim:
    """Return a liar's aim.

    Args:
        name: one of AIMS.
        kernel: the fleet's model; None for a learner without gradients.
        records: the liar's own training records, as its kernel reads them.
        classes: the number of classes; 1 for a regression.

    Raises:
        UsageError: if there are no gradients, or a regression's liar aims at a class.
    """
    if kernel is None:
        raise UsageError(f"--fault dishonest=…@{name}: this learner has no gradients to aim with; use another lie")
    features, labels = records.features, records.labels
    if name == "ascent":
        return Aim(kernel, features, labels, 1.0)
    if classes < 2:
        raise UsageError(f"--fault dishonest=…@{name}: a regression has no classes; use ascent")
    if name == "trigger":
        return Aim(kernel, triggered(features), np.full_like(labels, TRIGGERED_CLASS), -1.0)
    known_best = int(np.bincount(labels, minlength=classes).argmax())
    rows = labels == known_best
    return Aim(kernel, features[rows], np.full(int(rows.sum()), (known_best + 1) % classes, dtype=np.int64), -1.0)


def triggered(features: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return features, float64[n, d], with the pattern of the back door: the first of them at their largest value."""
    pattern = features.copy()
    pattern[:, : max(1, round(features.shape[1] * _TRIGGER_SHARE))] = features.max()
    return pattern
