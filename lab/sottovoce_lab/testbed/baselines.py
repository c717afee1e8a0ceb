"""Accuracy baselines for a fleet from trivial rules. Only the harness, which has all records, can compute them."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from sottovoce.data import Records

from sottovoce_lab.testbed.measure import Quality, majority

_MAX_DEVICES = 24
_MAX_RECORDS = 6000
"""Maximum total number of records on the sampled devices; at least one device is always sampled."""
_STRENGTHS = ((1000, 100.0), (2**62, 10.0))
"""Numbers of records, each with the inverse regularisation C that is used up to that number."""


@dataclass(frozen=True, slots=True)
class Baselines:
    """Accuracies of trivial rules on the test records.

    Attributes:
        majority_class: the accuracy of always predicting the most frequent class in the test records.
        own_data: the accuracy of a logistic regression that a device fits to its own records, without noise because it
            sends nothing; a mean over up to 24 devices that hold records.
    """

    majority_class: float
    own_data: float

    def warnings(self, final: Quality, noise: Literal["none", "local", "cell"]) -> list[str]:
        """Return a warning for each baseline that the fleet's accuracy does not reach.

        Args:
            final: the fleet's final measures.
            noise: where the noise comes from: `none`; `local`, added in full by each device; or `cell`, shares in
                secure sums.
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
    "none": "here the devices gain nothing from one another: use more cycles, or another learner",
    "local": "the noise costs more than the other devices' records contribute: use more records or devices, a larger "
    "ε, or --noise cell with a learner that supports secure sums",
    "cell": "the noise costs more than the other devices' records contribute: use more records or devices, or a "
    "larger ε",
}
"""Why a fleet is less accurate than a device alone, and the remedy, by noise source."""


def baselines(held: Sequence[Records], test: Records) -> Baselines | None:
    """Compute the baselines for a classification, or return None if there are no test records or no device has records.

    Args:
        held: each device's transformed records.
        test: records that no device has, after the same transform.
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
    """Return the accuracy that a device reaches with only its own records."""
    classes = np.unique(own.labels)
    if len(classes) < 2:
        return float((test.labels == classes[0]).mean()) if len(classes) else 0.0
    from sklearn.linear_model import LogisticRegression

    strength = next(C for most, C in _STRENGTHS if len(own) <= most)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about a fit that has not converged, which is good enough here
        fitted = LogisticRegression(C=strength, max_iter=100).fit(own.features, own.labels)
    return float(fitted.score(test.features, test.labels))
