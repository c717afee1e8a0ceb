"""Statement of a run of gradient sums, and the common part of all statements."""

from typing import Literal

from sottovoce.door import PrivacyStatement, Status
from sottovoce.vault.budget import Budget
from sottovoce.vault.clipped_sum import ClippedSum, DiscreteGaussian

Scaling = Literal["declared", "training-min-max"]
"""Scaling of features before they reach the vault: by declared ranges, or by those of all training records."""

THREAT_MODEL = (
    "local: anyone who reads every message of a device, any coalition of the others included; the device itself, its "
    "disk and who takes part are not hidden"
)
REFUTED = (
    "refuted: features were scaled by the smallest and largest values of all training records, a query on private data "
    "that no noise covers. One outlier that raises a feature's largest value from 5 to 250 moves everybody else's 2.5 "
    "from 0.5 to 0.01, so it is recognised with certainty at any ε; docs/explanation/privacy-model.md"
)

_CLIPPED = {"record": "example", "window": "window", "device": "device"}
_BATCHES = {  # sampling: the records in a sum, and the composition of the sums
    "full": ("full-batch", "Gaussian closed form, μ² adds up over releases, fully adaptive"),
    "poisson": (
        "Poisson-sampled",
        "privacy loss distributions of the sampled releases, convolved and rounded up, fully adaptive",
    ),
    "blocks": (
        "block by block",
        "a record is in one release per pass: parallel over blocks; Gaussian closed form over passes",
    ),
}


def guarantee(budget: Budget, mechanism: ClippedSum, clip: float | None, sampling: str = "full") -> PrivacyStatement:
    """Return the guarantee of all gradient sums that the budget allows, by `mechanism` over batches by `sampling`."""
    over, composition = _BATCHES[sampling]
    if not isinstance(mechanism, DiscreteGaussian):
        return no_guarantee(
            budget, "exact sums" + ("" if clip is None else f" of gradients clipped per example at {clip:g}")
        )
    return PrivacyStatement(
        unit=budget.unit,
        neighbouring=budget.neighbouring,
        mechanism=(
            f"exact discrete Gaussian on the grid 2^{mechanism.exponent}, σ = {mechanism.sigma * mechanism.step:.6g}, "
            f"on {over} sums of gradients clipped per {_CLIPPED[budget.unit]} at {clip:g}"
        ),
        composition=(composition + ("; each window pays for the releases it is in" if budget.unit == "window" else "")),
        epsilon=budget.epsilon,
        delta=budget.delta,
        threat_model=THREAT_MODEL,
        status=Status.PROVED,
        reason="docs/explanation/privacy-model.md; docs/decisions/0003-discrete-gaussian.md",
    )


def no_guarantee(budget: Budget, what: str) -> PrivacyStatement:
    """Return the statement of the noiseless baseline."""
    return PrivacyStatement(
        unit=budget.unit,
        neighbouring=budget.neighbouring,
        mechanism=f"none: {what}",
        composition="none",
        epsilon=None,
        delta=None,
        threat_model=THREAT_MODEL,
        status=Status.NONE,
        reason="the noiseless baseline: every message may reveal records",
    )
