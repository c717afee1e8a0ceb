"""Sensitivities that follow from a named lemma. The vault checks a lemma's conditions; its result cannot be set.

**Chains** (Jin, He & Dai 2023, Lemma 4). A device starts from public weights w, takes steps w ← w - 2η ∇f_D(w) on
disjoint batches D of b records each, and ends with (w_global + w)/2 - η ∇f_D(w_global) on one more. For a convex loss
that is L-Lipschitz and μ-smooth, and η ≤ 1/(2μ), no step brings two points farther apart. Replacing one record moves
the step it is in by 2η · 2L/b, which the last line halves, or the last line by η · 2L/b. So the end moves by 2ηL/b in
L2 norm, however long the chain was.

**Two additions.** A regulariser (λ/2)‖w‖² adds λ to the smoothness, and nothing to the sensitivity: it is the same in
both worlds, so that L remains that of the loss alone. And if no step is longer than the first, and models are projected
onto a ball, which moves no two points farther apart, 2ηL/b with the first step's η is still a bound.

The lemma is about real numbers. The floating-point error is bounded separately (`rounding`), and added to it.
"""

import math
from dataclasses import dataclass

from sottovoce.errors import PrivacyError
from sottovoce.kernels import Kernel
from sottovoce.kernels.one_vs_all import copies
from sottovoce.kernels.softmax import Softmax

LARGEST = 2.0**12  # largest magnitude of a weight that a chain may start from
MAX_STEPS = 2**12
_FARTHEST = 2.0**15  # farthest that a chain may lead: BoundedPoint's grid holds no more


@dataclass(frozen=True, slots=True)
class Smooth:
    """A convex loss over records in the unit ball.

    Attributes:
        lipschitz: L, the Lipschitz constant of the loss in the parameters.
        smoothness: μ, the Lipschitz constant of its gradient.
    """

    lipschitz: float
    smoothness: float

    def regularised(self, strength: float) -> "Smooth":
        """Return the loss with (λ/2)‖w‖² added: μ grows by λ. L is unchanged, as the addition depends on no record."""
        return Smooth(self.lipschitz, self.smoothness + strength)


_SOFTMAX = Smooth(math.nextafter(math.sqrt(2), 2), 0.5)


def smoothness_of(kernel: Kernel) -> Smooth:
    """Return the constants of a kernel's loss.

    Raises:
        PrivacyError: if none are proved for it here.
    """
    if type(kernel) is Softmax:
        # ‖x ⊗ (p - e_y)‖ = ‖x‖ ‖p - e_y‖ ≤ √2; the Hessian is xx' ⊗ (diag p - pp'), with eigenvalues of 1/2 at most.
        return _SOFTMAX
    from sottovoce.kernels.binary import Logistic  # not needed on a device that learns softmax

    if type(kernel) is Logistic:
        # Model k of c adds s_k x with |s_k| < 1: ‖s‖ ‖x‖ ≤ √c. The Hessian is xx' ⊗ diag s_k(1 - s_k), 1/4 at most.
        return Smooth(math.nextafter(math.sqrt(copies(kernel.classes)), math.inf), 0.25)
    raise PrivacyError(
        f"no bound is proved for the loss of {type(kernel).__name__}: chains learn softmax or logistic regression"
    )


def chain_sensitivity(loss: Smooth, *, step_size: float, batch: int, steps: int, neighbouring: str) -> float:
    """Return 2ηL/b: distance in L2 norm by which the end of a chain moves when one record is replaced.

    Args:
        loss: constants of the loss.
        step_size: η of the first step; no other is longer.
        batch: b, records in a step; the same in every step, and public.
        steps: steps of a chain, the last one included.
        neighbouring: must be `replace-one`: without a record the batches of all later steps would differ.

    Raises:
        PrivacyError: if a condition of the lemma does not hold; the message says which.
    """
    if neighbouring != "replace-one":
        raise PrivacyError(
            f"chains of disjoint batches have no bound under {neighbouring}: set privacy.neighbouring=replace-one"
        )
    if not 0 < step_size <= 1 / (2 * loss.smoothness):
        raise PrivacyError(
            f"learner.step_size = {step_size:g}: a step longer than 1/(2μ) = {1 / (2 * loss.smoothness):g} "
            "could bring two points farther apart; take a shorter one"
        )
    if batch < 1 or not 1 <= steps <= MAX_STEPS:
        raise PrivacyError(f"a chain must have 1 to {MAX_STEPS} steps of at least one record: correct the schedule")
    if LARGEST + steps * 2 * step_size * loss.lipschitz > _FARTHEST:
        raise PrivacyError(
            f"a chain of {steps} steps could lead farther than {_FARTHEST:g}: take a shorter step or a shorter period"
        )
    return 2 * step_size * loss.lipschitz / batch


def rounding_distance(
    *,
    features: int,
    classes: int,
    step_size: float,
    batch: int,
    steps: int,
    loss: Smooth = _SOFTMAX,
    regularised: bool = False,
) -> float:
    """Return the L2 distance by which float64 may move two neighbours' ends farther apart than the lemma states.

    u = 2⁻⁵³ is the error of one operation. Weights stay below W = LARGEST + steps · 2ηL. A logit is a sum of d
    products, so wrong by (d + 2) u √d W at most; a probability by twice that, and by (c + 8) 4u for the exponentials
    and their sum, hence c logistic slopes by no more than √c/4 of that; a mean gradient besides by b · 4u; the weights
    by 2u W in each of P numbers. A regulariser's λw is wrong by 2u λW, and 2ηλ ≤ 1; a norm of P numbers by (P/2 + 2) u
    of itself, and the projection that divides by it by (P + 8) u W. Errors are not stretched by later steps, and the
    factors below are more than twice the ones needed.

    Args:
        features: d.
        classes: c, or the number of binary models.
        step_size: η, the largest.
        batch: b.
        steps: steps of a chain.
        loss: constants of the loss.
        regularised: whether there is a regulariser, and a projection after each step.
    """
    unit, weight, size = 2.0**-53, LARGEST + steps * max(3.0, 2 * step_size * loss.lipschitz), features * classes
    gradient = 8 * (features + 8) * math.sqrt(features) * weight * unit + 16 * (classes + batch + 16) * unit
    gradient *= max(1.0, loss.lipschitz / _SOFTMAX.lipschitz)
    step = 4 * weight * math.sqrt(size) * unit + 2 * step_size * gradient
    if regularised:
        step += 4 * (size + 16) * weight * unit
    return 2 * steps * step
