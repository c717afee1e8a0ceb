"""Sensitivities that follow from a published lemma, whose conditions the vault checks; no setting overrides them.

**Chains** (Jin, He & Dai 2023, Lemma 4). A device starts from public weights w, takes steps w ← w - 2η ∇f_D(w) on
disjoint batches D of b records each, and ends with (w_global + w)/2 - η ∇f_D(w_global) on a further batch. If the loss
is convex, L-Lipschitz and μ-smooth, and η ≤ 1/(2μ), a step never increases the distance between two points. Replacing a
record changes either a local step, by 2η · 2L/b, which the last step halves, or the last step, by η · 2L/b. The end
therefore moves by at most 2ηL/b in L2 norm, regardless of the chain's length.

**Two additions.** A regulariser (λ/2)‖w‖² adds λ to the smoothness but does not change the sensitivity: it does not
depend on the records, so L remains the Lipschitz constant of the loss without it. If no step is longer than the first,
and models are projected onto a ball, which never increases the distance between two points, then 2ηL/b with the first
step's η is still a bound.

The lemma applies to real numbers. The floating-point error is bounded separately (`rounding_distance`) and added.
"""

import math
from dataclasses import dataclass

from sottovoce.plugin import Kernel, PrivacyError, Softmax, copy_count

MAX_WEIGHT = 2.0**12  # largest magnitude of a weight from which a chain may start
MAX_STEPS = 2**12
_MAX_REACH = 2.0**15  # largest magnitude that a chain may reach; BoundedPoint's grid cannot represent larger values


@dataclass(frozen=True, slots=True)
class SmoothLoss:
    """A convex loss over records in the unit ball.

    Attributes:
        lipschitz: L, the Lipschitz constant of the loss in the parameters.
        smoothness: μ, the Lipschitz constant of the loss gradient.
    """

    lipschitz: float
    smoothness: float

    def with_regulariser(self, strength: float) -> "SmoothLoss":
        """Return the constants with (λ/2)‖w‖² added to the loss: μ grows by λ.

        L is unchanged, because the added term does not depend on the records.
        """
        return SmoothLoss(self.lipschitz, self.smoothness + strength)


_SOFTMAX = SmoothLoss(math.nextafter(math.sqrt(2), 2), 0.5)


def loss_constants(kernel: Kernel) -> SmoothLoss:
    """Return the constants of a kernel's loss.

    Raises:
        PrivacyError: if no constants have been proved for this kernel.
    """
    if type(kernel) is Softmax:
        # ‖x ⊗ (p - e_y)‖ = ‖x‖ ‖p - e_y‖ ≤ √2; the Hessian is xx' ⊗ (diag p - pp'), with eigenvalues of at most 1/2.
        return _SOFTMAX
    from sottovoce.plugin import Logistic

    if type(kernel) is Logistic:
        # Model k of c adds s_k x with |s_k| < 1: ‖s‖ ‖x‖ ≤ √c. The Hessian is xx' ⊗ diag s_k(1 - s_k), at most 1/4.
        return SmoothLoss(math.nextafter(math.sqrt(copy_count(kernel.classes)), math.inf), 0.25)
    raise PrivacyError(
        f"no bound is proved for the loss of {type(kernel).__name__}; use softmax or logistic regression with chains"
    )


def chain_sensitivity(loss: SmoothLoss, *, step_size: float, batch: int, steps: int, neighbouring: str) -> float:
    """Return 2ηL/b, the L2 distance by which the end of a chain moves if one record is replaced.

    Args:
        loss: constants of the loss.
        step_size: η of the first step; no other step size is larger.
        batch: b, number of records in a step; equal in every step, and public.
        steps: number of steps in a chain, including the last one.
        neighbouring: must be `replace-one`, because removing a record would change the batches of all later steps.

    Raises:
        PrivacyError: if a condition of the lemma is not met; the message states which one.
    """
    if neighbouring != "replace-one":
        raise PrivacyError(
            f"chains of disjoint batches do not have a bound under {neighbouring}; set privacy.neighbouring=replace-one"
        )
    if not 0 < step_size <= 1 / (2 * loss.smoothness):
        raise PrivacyError(
            f"learner.step_size = {step_size:g}: a step size above 1/(2μ) = {1 / (2 * loss.smoothness):g} "
            "could move two points farther apart; use a smaller step size"
        )
    if batch < 1 or not 1 <= steps <= MAX_STEPS:
        raise PrivacyError(
            f"a chain has no steps, more than {MAX_STEPS} steps, or steps without records; correct the schedule"
        )
    if MAX_WEIGHT + steps * 2 * step_size * loss.lipschitz > _MAX_REACH:
        raise PrivacyError(
            f"weights in a chain of {steps} steps could exceed {_MAX_REACH:g}; use a smaller step size or a "
            "shorter period"
        )
    return 2 * step_size * loss.lipschitz / batch


def rounding_distance(
    *,
    features: int,
    classes: int,
    step_size: float,
    batch: int,
    steps: int,
    loss: SmoothLoss = _SOFTMAX,
    is_regularised: bool = False,
) -> float:
    """Return the L2 distance that float64 rounding may add to the lemma's bound for two neighbours' chains.

    The error of one operation is u = 2⁻⁵³. Weights stay below W = MAX_WEIGHT + steps · 2ηL. A logit is a sum of d
    products, so its error is at most (d + 2) u √d W. The error of a probability is at most twice that, plus (c + 8) 4u
    for the exponentials and their sum; the error of c logistic slopes is at most √c/4 of that. A mean gradient adds an
    error of b · 4u, and the weights add 2u W in each of P numbers. The error of a regulariser's λw is 2u λW, where
    2ηλ ≤ 1. The relative error of a norm of P numbers is (P/2 + 2) u, and the error of the projection that divides by
    it is (P + 8) u W. Later steps do not amplify errors, and the factors below are more than twice as large as
    necessary.

    Args:
        features: d.
        classes: c, or the number of binary models.
        step_size: η, the largest step size.
        batch: b, the batch size.
        steps: number of steps in a chain.
        loss: constants of the loss.
        is_regularised: whether there is a regulariser, and a projection after each step.
    """
    unit, weight, size = 2.0**-53, MAX_WEIGHT + steps * max(3.0, 2 * step_size * loss.lipschitz), features * classes
    gradient = 8 * (features + 8) * math.sqrt(features) * weight * unit + 16 * (classes + batch + 16) * unit
    gradient *= max(1.0, loss.lipschitz / _SOFTMAX.lipschitz)
    step = 4 * weight * math.sqrt(size) * unit + 2 * step_size * gradient
    if is_regularised:
        step += 4 * (size + 16) * weight * unit
    return 2 * steps * step
