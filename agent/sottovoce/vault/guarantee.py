"""The statement of what a run promises."""

import math
from typing import Literal

from sottovoce.door import PrivacyStatement, Status
from sottovoce.errors import InternalError
from sottovoce.perturbation import Cap, LabelledPrivUnit, Laplace, LaplaceCopies, PrivUnit, Scheme
from sottovoce.vault.bounded_point import BoundedPoint
from sottovoce.vault.budget import Budget
from sottovoce.vault.clipped_sum import ClippedSum, DiscreteGaussian
from sottovoce.vault.pure_sum import PureSum
from sottovoce.vault.stream_sum import StreamSum
from sottovoce.vault.unproved_point import UnprovedPoint

Scaling = Literal["declared", "training-min-max"]
"""How features were scaled before they reached the vault: by declared ranges, or by those of all training records."""

_THREAT_MODEL = (
    "local: anybody who reads every message of a device, any coalition of the others included; the device itself, its "
    "disk and who takes part are not hidden"
)
_REFUTED = (
    "refuted: features were scaled by the smallest and largest values of all training records, a query on private data "
    "that no noise covers. One outlier that raises a feature's largest value from 5 to 250 moves everybody else's 2.5 "
    "from 0.5 to 0.01, so it is recognised with certainty at any ε; docs/explanation/privacy-model.md"
)

_CLIPPED = {"record": "example", "window": "window", "device": "device"}
_BATCHES = {  # what is summed over, and how that adds up
    "full": ("full-batch", "Gaussian closed form, μ² adds up over releases, fully adaptive"),
    "poisson": (
        "Poisson-sampled",
        "privacy loss distributions of the sampled releases, convolved and rounded up, fully adaptive",
    ),
    "blocks": (
        "block by block",
        "a record is in one release a pass: parallel over blocks; Gaussian closed form over passes",
    ),
}
_WALK_LAWS = {
    "joint": "exact discrete noise of the K-norm mechanism, one law for the copies of a feature,",
    "copies": "exact discrete Laplace on each one-vs-all copy, at ε/copies,",
}


def guarantee(budget: Budget, mechanism: ClippedSum, clip: float | None, sampling: str = "full") -> PrivacyStatement:
    """The guarantee of all sums of gradients the budget allows, made by `mechanism` over so chosen batches."""
    over, composition = _BATCHES[sampling]
    if not isinstance(mechanism, DiscreteGaussian):
        return _nothing(
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
        threat_model=_THREAT_MODEL,
        status=Status.PROVED,
        reason="docs/explanation/privacy-model.md; docs/decisions/0003-discrete-gaussian.md",
    )


def record_guarantee(budget: Budget, scheme: Scheme, scaling: Scaling) -> PrivacyStatement:
    """The guarantee of every record's release by `scheme`, one each; where refuted, the claim that does not hold."""
    if scheme.epsilon is None:
        return _nothing(budget, "every record as it is, scaled to length 1")
    refuted = scaling == "training-min-max"
    return PrivacyStatement(
        unit=budget.unit,
        neighbouring=budget.neighbouring,
        mechanism=f"{_words(scheme)}; pure ε = {scheme.epsilon:g} for a record with its label",
        composition="each record is released once: parallel over records",
        epsilon=scheme.epsilon if refuted else budget.epsilon,
        delta=budget.delta,
        threat_model=_THREAT_MODEL + "; how many records there are is public",
        status=Status.REFUTED if refuted else Status.PROVED,
        reason=_REFUTED if refuted else "docs/explanation/privacy-model.md; docs/decisions/0009-record-releases.md",
    )


def walk_guarantee(budget: Budget, visits: tuple[PureSum, ...], epsilon: float, scaling: Scaling) -> PrivacyStatement:
    """The guarantee of all visits together, which cost `epsilon`; where refuted, the claim that does not hold."""
    if math.isinf(epsilon):
        return _nothing(budget, "exact sums of gradients")
    refuted, words = scaling == "training-min-max", f"{len(visits)} visits" if len(visits) > 1 else "one visit"
    return PrivacyStatement(
        unit=budget.unit,
        neighbouring=budget.neighbouring,
        mechanism=(
            f"{_WALK_LAWS[visits[0].law]} on sums of loss gradients of records of L1 length 1; pure, "
            f"ε = {epsilon:g} over {words}"
        ),
        composition="sequential over the visits to a device, whose number is public: ε adds up, fully adaptive",
        epsilon=epsilon if refuted else budget.epsilon,
        delta=budget.delta,
        threat_model=_THREAT_MODEL + "; how many records there are is public",
        status=Status.REFUTED if refuted else Status.PROVED,
        reason=_REFUTED if refuted else "docs/explanation/golf.md#the-gradient-walk-for-comparison",
    )


def chain_guarantee(budget: Budget, mechanism: BoundedPoint | UnprovedPoint, passes: int) -> PrivacyStatement:
    """The guarantee of all chains of steps without replacement, over every pass."""
    if not isinstance(mechanism, BoundedPoint):
        return _nothing(budget, "the exact ends of chains of steps")
    over = "one pass" if passes == 1 else f"{passes} passes"
    return PrivacyStatement(
        unit=budget.unit,
        neighbouring=budget.neighbouring,
        mechanism=(
            f"exact discrete Gaussian on the grid 2^{mechanism.exponent}, "
            f"σ = {math.ldexp(mechanism.sigma, mechanism.exponent):.6g}, on the end of a chain of steps"
        ),
        composition=f"a record is in one release a pass, {over}; Gaussian closed form, releases of a pass in parallel",
        epsilon=budget.epsilon,
        delta=budget.delta,
        threat_model=_THREAT_MODEL + "; how many records there are is public",
        status=Status.PROVED,
        reason="docs/decisions/0016-chains.md (Jin, He & Dai 2023, Lemma 4, at a public period)",
    )


def stream_guarantee(budget: Budget, mechanism: StreamSum, clip: float) -> PrivacyStatement:
    """The guarantee of all totals of a stream, however long."""
    return PrivacyStatement(
        unit=budget.unit,
        neighbouring=budget.neighbouring,
        mechanism=(
            f"exact discrete Gaussian on the grid 2^{mechanism.exponent}, "
            f"σ = {math.ldexp(mechanism.sigma, mechanism.exponent):.6g}, on Toeplitz-weighted sums of "
            f"{len(mechanism.coefficients)} windows, each window's total clipped at {clip:g}"
        ),
        composition="one Gaussian release for all that a window is ever in; windows compose in parallel",
        epsilon=budget.epsilon,
        delta=budget.delta,
        threat_model=_THREAT_MODEL + "; which windows there are is public",
        status=Status.PROVED,
        reason="docs/explanation/privacy-model.md#a-statistic-for-ever",
    )


def _nothing(budget: Budget, what: str) -> PrivacyStatement:
    return PrivacyStatement(
        unit=budget.unit,
        neighbouring=budget.neighbouring,
        mechanism=f"none: {what}",
        composition="none",
        epsilon=None,
        delta=None,
        threat_model=_THREAT_MODEL,
        status=Status.NONE,
        reason="the noiseless baseline: every message may reveal records",
    )


def _words(scheme: Scheme) -> str:
    match scheme:
        case LaplaceCopies():
            law, where = _laplace(scheme), f"on {scheme.copies} copies of a record of L1 length 1"
        case Laplace():
            law, where = _laplace(scheme), "on record ⊗ label, of L1 length 1"
        case PrivUnit():
            law, where = _priv_unit(scheme.cap), "on record ⊗ label"
        case LabelledPrivUnit():
            law = f"randomised response on the label at ε = {scheme.label.epsilon:g} and {_priv_unit(scheme.cap)}"
            where = "on the features"
        case _:
            raise InternalError(f"no words for scheme `{scheme.name}`: report this")
    return f"{law} {where}, on the grid 2^{scheme.exponent}"


def _laplace(scheme: Laplace | LaplaceCopies) -> str:
    return f"exact discrete Laplace, scale {math.ldexp(scheme.scale, scheme.exponent):.6g},"


def _priv_unit(cap: Cap) -> str:
    return f"exact PrivUnit, γ = {cap.gamma:.6g}, p = {cap.probability:.6g},"
