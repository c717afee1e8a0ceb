"""Accuracy baselines for a fleet from trivial rules. Only the harness, which has all records, can compute them."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from sottovoce.data import Records

from sottovoce_lab.testbed.measure import PredictionErrors, Quality, majority_accuracy

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
        own_data: the accuracy of a logistic regression that a device fits to its own records, with no noise because
            the device sends nothing; a mean over up to 24 devices that hold records.
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
        messages: list[str] = []
        accuracy = final.accuracy_mean
        if accuracy is None:
            return messages
        if accuracy < self.majority_class:
            messages.append(
                f"accuracy {accuracy:.3f} is below {self.majority_class:.3f}, the share of the most common class"
            )
        if accuracy < self.own_data:
            messages.append(
                f"accuracy {accuracy:.3f} is below {self.own_data:.3f}, which a device reaches alone, with its own "
                f"records and no noise: {_WHY[noise]}"
            )
        return messages


_WHY = {
    "none": "the devices gain nothing from one another in this run: use more cycles, or another learner",
    "local": "the noise costs more than the other devices' records contribute: use more records or devices, a larger "
    "ε, or --noise cell with a learner that supports secure sums",
    "cell": "the noise costs more than the other devices' records contribute: use more records or devices, or a "
    "larger ε",
}
"""Why a fleet is less accurate than a device alone, and the remedy, by noise source."""


def compare_with_alone(measure: str, results: Sequence[float], alone: Sequence[float]) -> str:
    """Return a sentence that compares runs with devices that learn alone, from their own records, without noise.

    Args:
        measure: what is compared, `accuracy` or an error.
        results: each run's mean over its devices.
        alone: for each run, the mean over devices alone.
    """
    sign = 1 if measure == "accuracy" else -1
    wins = sum(sign * result > sign * own for result, own in zip(results, alone, strict=True))
    alone_text, result_text = (_describe_range(values) for values in (alone, results))
    if len(results) == 1:
        verdict = "The fleet is better than" if wins else "The fleet is no better than"
    elif wins in (0, len(results)):
        verdict = f"In {'all' if wins else 'none'} of {len(results)} runs, the fleet is better than"
    else:
        verdict = f"In {wins} of {len(results)} runs, the fleet is better than"
    return f"{verdict} a device alone without noise: {measure} {result_text}, alone {alone_text}"


def comparison_with_alone(runs: Sequence[Mapping[str, Any]]) -> str | None:
    """Return compare_with_alone for the runs of a document `sottovoce.sweep/1`; None if they predict nothing."""
    pairs = [
        (run["final"]["accuracy_mean"], run["baselines"]["own_data"]) for run in runs if run["baselines"] is not None
    ]
    measure = "accuracy" if pairs else "error"
    pairs = pairs or [
        (run["final"]["mae_mean"], own) for run in runs if (own := run["final"].get("mae_own_data")) is not None
    ]
    if not pairs:
        return None
    results, alone = zip(*pairs, strict=True)
    return compare_with_alone(measure, results, alone)


def _describe_range(values: Sequence[float]) -> str:
    low, high = f"{min(values):.3g}", f"{max(values):.3g}"
    return low if low == high else f"{low} to {high}"


def prediction_warnings(final: PredictionErrors, noise: Literal["none", "local", "cell"]) -> list[str]:
    """Return a warning for each simple prediction whose error is smaller than the fleet's; see Baselines.warnings."""
    simple = {
        "the preceding half hour (persistence)": final.mae_persistence,
        "the same time on the previous day": final.mae_same_time_yesterday,
    }
    messages = [
        f"error {final.mae_mean:.4g} exceeds {error:.4g}, the error of predicting {name}"
        for name, error in simple.items()
        if error is not None and error < final.mae_mean
    ]
    if final.mae_own_data is not None and final.mae_own_data < final.mae_mean:
        messages.append(
            f"error {final.mae_mean:.4g} exceeds {final.mae_own_data:.4g}, which a device reaches alone, with its own "
            f"records and no noise: {_WHY[noise]}"
        )
    return messages


def compute_baselines(device_records: Sequence[Records], test: Records) -> Baselines | None:
    """Compute the baselines for a classification, or return None if there are no test records or no device has records.

    Args:
        device_records: each device's transformed records.
        test: records that no device has, after the same transform.
    """
    device_records = [records for records in device_records if len(records)]
    if not len(test) or not device_records:
        return None
    sample: list[Records] = []
    record_count = 0
    for records in device_records[:: max(1, len(device_records) // _MAX_DEVICES)][:_MAX_DEVICES]:
        if not sample or record_count + len(records) <= _MAX_RECORDS:
            sample.append(records)
            record_count += len(records)
    return Baselines(majority_accuracy(test), float(np.mean([_accuracy_alone(records, test) for records in sample])))


def _accuracy_alone(records: Records, test: Records) -> float:
    """Return the accuracy that a device reaches with only its own records."""
    classes = np.unique(records.labels)
    if len(classes) < 2:
        return float((test.labels == classes[0]).mean()) if len(classes) else 0.0
    from sklearn.linear_model import LogisticRegression

    strength = next(C for max_records, C in _STRENGTHS if len(records) <= max_records)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about a fit that has not converged, which is good enough here
        model = LogisticRegression(C=strength, max_iter=100).fit(records.features, records.labels)
    return float(model.score(test.features, test.labels))
