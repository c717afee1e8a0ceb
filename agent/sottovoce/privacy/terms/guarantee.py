"""Privacy statement for a run of gradient sums, and the parts that all statements share."""

import math
from typing import Literal

from sottovoce.privacy.api import PrivacyStatement, Status
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.mechanisms.clipped_sum import ClippedSum, DiscreteGaussian

Scaling = Literal["declared", "training-min-max"]
"""Scaling of features before they reach the vault: by declared ranges, or by the ranges of all training records."""

THREAT_MODEL = (
    "local: anyone who reads every message of a device, including any coalition of other devices; the device itself, "
    "its disk and the fact that it takes part are not hidden"
)
REFUTED = (
    "refuted: features were scaled by the smallest and largest values of all training records, a noise-free query on "
    "private data. An outlier that raises a feature's largest value from 5 to 250 changes every other record's 2.5 "
    "from 0.5 to 0.01, so the outlier is detected with certainty at any ε; docs/explanation/privacy-model.md"
)

_CLIPPED = {"record": "example", "window": "window", "device": "device"}
_BATCHES = {  # sampling method: the records in a sum, and the composition of the sums
    "full": ("full-batch", "Gaussian closed form, μ² adds up over releases, fully adaptive"),
    "poisson": (
        "Poisson-sampled",
        "privacy loss distributions of the sampled releases, convolved and rounded up, fully adaptive",
    ),
    "blocks": (
        "block by block",
        "each record is in one release per pass: parallel over blocks; Gaussian closed form over passes",
    ),
}


def gradient_guarantee(
    budget: Budget,
    mechanism: ClippedSum,
    clip: float | None,
    sampling: str = "full",
    record_sum: ClippedSum | None = None,
) -> PrivacyStatement:
    """Return the guarantee for all gradient sums that the budget covers.

    Args:
        budget: the budget.
        mechanism: mechanism of every release.
        clip: L2 clip norm of one unit's contribution; None if nothing is clipped.
        sampling: how the records in a sum are chosen: `full`, `poisson` or `blocks`.
        record_sum: mechanism of the sum of records that precedes the gradients, if there is one.
    """
    batches, composition = _BATCHES[sampling]
    if not isinstance(mechanism, DiscreteGaussian):
        return no_guarantee(
            budget, "exact sums" + ("" if clip is None else f" of gradients clipped per example at {clip:g}")
        )
    return PrivacyStatement(
        unit=budget.unit,
        neighbouring=budget.neighbouring,
        mechanism=(
            f"exact discrete Gaussian on the grid 2^{mechanism.exponent}, σ = {mechanism.sigma * mechanism.step:.6g}, "
            f"on {batches} sums of gradients clipped per {_CLIPPED[budget.unit]} at {clip:g}"
            f"{_describe_record_sum(record_sum)}"
        ),
        composition=(
            composition + ("; each window pays for the releases that include it" if budget.unit == "window" else "")
        ),
        epsilon=budget.epsilon,
        delta=budget.delta,
        threat_model=THREAT_MODEL,
        status=Status.PROVED,
        reason="docs/explanation/privacy-model.md; docs/decisions/0003-discrete-gaussian.md",
    )


def _describe_record_sum(mechanism: ClippedSum | None) -> str:
    if not isinstance(mechanism, DiscreteGaussian):
        return ""
    longest = math.sqrt(mechanism.clip_squared) * mechanism.step
    return (
        f"; before them, once, on the sum of the records, clipped per example at {longest:.4g}, on the grid "
        f"2^{mechanism.exponent}, σ = {mechanism.sigma * mechanism.step:.6g}"
    )


def no_guarantee(budget: Budget, description: str) -> PrivacyStatement:
    """Return the statement for the noise-free baseline."""
    return PrivacyStatement(
        unit=budget.unit,
        neighbouring=budget.neighbouring,
        mechanism=f"none: {description}",
        composition="none",
        epsilon=None,
        delta=None,
        threat_model=THREAT_MODEL,
        status=Status.NONE,
        reason="the noiseless baseline: every message may reveal records",
    )
