"""Trivial rules as baselines of a fleet's accuracy. Only the harness can compute them: it has all records."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from sottovoce.data import Records

from sottovoce_lab.testbed.measure import Quality, majority

_MAX_DEVICES = 24
_MAX_RECORDS = 6000
"""Maximum number of records of the sampled devices together; at least one device is sampled."""
_STRENGTHS = ((1000, 100.0), (2**62, 10.0))
"""Inverse regularisation C, by the largest number of records for which it is used."""


@dataclass(frozen=True, slots=True)
class Baselines:
    """Accuracies on the test records.

    Attributes:
        majority_class: accuracy of always predicting the most frequent class of the test records.
        own_data: accuracy of a logistic regression that a device fits to its own records, without noise, since it sends
            nothing; the mean over at most 24 devices that hold records.
    """

    majority_class: float
    own_data: float

    def warnings(self, final: Quality, noise: Literal["none", "local", "cell"]) -> list[str]:
        """Return warnings for a fleet with an accuracy below a baseline.

        Args:
            final: measures of the fleet.
            noise: source of the noise: none, all added by each device, or shares in secure sums.
        """
        found: list[str] = []
        reached = final.accuracy_mean
        if reached is None:
            return found
        if reached < self.majority_class:
            found.append(
                f"accuracy {reached:.3f} is below {self.majority_class:.3f}, the share of the most common class"
            )
        if reached < self.own_data:
            found.append(
                f"accuracy {reached:.3f} is below {self.own_data:.3f}, which a device reaches alone, with its own "
                f"records and no noise: {_WHY[noise]}"
            )
        return found


_WHY = {
    "none": "the devices gain nothing from each other here: give them more cycles, or another learner",
    "local": "the noise costs more than the other devices' records bring: use more records or devices, a larger ε, or "
    "--noise cell with a learner that has secure sums",
    "cell": "the noise costs more than the other devices' records bring: use more records or devices, or a larger ε",
}
"""Reason why a fleet is below the accuracy of a device alone, and the remedy."""


def baselines(held: Sequence[Records], test: Records) -> Baselines | None:
    """Compute the baselines of a classification; None without classification.

    Args:
        held: transformed records of each device.
        test: records that no device holds, with an equal transform.
    """
    held = [own for own in held if len(own)]
    if not len(test) or not held:
        return None
    chosen: list[Records] = []
    records = 0
    for own in held[:: max(1, len(held) // _MAX_DEVICES)][:_MAX_DEVICES]:
        if not chosen or records + len(own) <= _MAX_RECORDS:
            chosen.append(own)
            records += len(own)
    return Baselines(majority(test), float(np.mean([_accuracy_alone(own, test) for own in chosen])))


def _accuracy_alone(own: Records, test: Records) -> float:
    """Return the accuracy that a device reaches alone."""
    classes = np.unique(own.labels)
    if len(classes) < 2:
        return float((test.labels == classes[0]).mean()) if len(classes) else 0.0
    from sklearn.linear_model import LogisticRegression

    strength = next(C for most, C in _STRENGTHS if len(own) <= most)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about a fit that has not converged, which suffices here
        fitted = LogisticRegression(C=strength, max_iter=100).fit(own.features, own.labels)
    return float(fitted.score(test.features, test.labels))
