"""The statement of what a run of gradient sums promises."""

from sottovoce.door import PrivacyStatement, Status
from sottovoce.vault.ledger import Budget
from sottovoce.vault.mechanism import DiscreteGaussian, Mechanism

_THREAT_MODEL = (
    "local: anybody who reads every message of a device, any coalition of the others included; the device itself, its "
    "disk and who takes part are not hidden"
)


def guarantee(budget: Budget, mechanism: Mechanism, clip: float | None) -> PrivacyStatement:
    """The guarantee of all releases the budget allows, made by `mechanism`."""
    if not isinstance(mechanism, DiscreteGaussian):
        words = "none: exact sums" + ("" if clip is None else f" of gradients clipped per example at {clip:g}")
        return PrivacyStatement(
            unit=budget.unit,
            neighbouring=budget.neighbouring,
            mechanism=words,
            composition="none",
            epsilon=None,
            delta=None,
            threat_model=_THREAT_MODEL,
            status=Status.NONE,
            reason="the noiseless baseline: every message may reveal records",
        )
    return PrivacyStatement(
        unit=budget.unit,
        neighbouring=budget.neighbouring,
        mechanism=(
            f"exact discrete Gaussian on the grid 2^{mechanism.exponent}, σ = {mechanism.sigma * mechanism.step:.6g}, "
            f"on full-batch sums of gradients clipped per example at {clip:g}"
        ),
        composition="Gaussian closed form, μ² adds up over releases, fully adaptive",
        epsilon=budget.epsilon,
        delta=budget.delta,
        threat_model=_THREAT_MODEL,
        status=Status.PROVED,
        reason="docs/explanation/privacy-model.md; docs/decisions/0003-discrete-gaussian.md",
    )
