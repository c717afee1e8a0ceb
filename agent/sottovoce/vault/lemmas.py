"""Sensitivities that follow from a named lemma. The vault checks a lemma's conditions; there is no knob for its result.

**Chains** (Jin, He & Dai 2023, Lemma 4). A device starts from public weights w, takes steps w ← w - 2η ∇f_D(w) on
disjoint batches D of b records each, and ends with (w_global + w)/2 - η ∇f_D(w_global) on one more. For a convex loss
that is L-Lipschitz and μ-smooth, and η ≤ 1/(2μ), no step brings two points farther apart. Replacing one record moves
the step it is in by 2η · 2L/b, which the last line halves, or the last line by η · 2L/b. So the end moves by 2ηL/b in
L2 norm, however long the chain was.

The lemma is about real numbers. What floating point can add to it is bounded beside it (`rounding`), and added to it.
"""

import math
from dataclasses import dataclass

from sottovoce.errors import PrivacyError
from sottovoce.kernels import Kernel, Softmax

LARGEST = 2.0**12  # of a weight that a chain may start from
MOST_STEPS = 2**12


@dataclass(frozen=True, slots=True)
class Smooth:
    """A convex loss over records in the unit ball.

    Attributes:
        lipschitz: L, of the loss in the parameters.
        smoothness: μ, of its gradient.
    """

    lipschitz: float
    smoothness: float


def smooth(kernel: Kernel) -> Smooth:
    """The constants of a kernel's loss.

    Raises:
        PrivacyError: none are proved for it here.
    """
    if type(kernel) is Softmax:
        # ‖x ⊗ (p - e_y)‖ = ‖x‖ ‖p - e_y‖ ≤ √2; the Hessian is xx' ⊗ (diag p - pp'), with eigenvalues of 1/2 at most.
        return Smooth(math.nextafter(math.sqrt(2), 2), 0.5)
    raise PrivacyError(f"no bound is proved for the loss of {type(kernel).__name__}: chains learn softmax regression")


def chain_sensitivity(loss: Smooth, *, step_size: float, batch: int, steps: int, neighbouring: str) -> float:
    """2ηL/b: how far the end of a chain moves, in L2 norm, when one record is replaced.

    Args:
        loss: its constants.
        step_size: η.
        batch: b, records in a step; the same in every step, and public.
        steps: of a chain, the last one included.
        neighbouring: must be `replace-one`: without a record the batches of all later steps would be others.

    Raises:
        PrivacyError: a condition of the lemma does not hold; the message says which.
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
    if batch < 1 or not 1 <= steps <= MOST_STEPS:
        raise PrivacyError(f"a chain has 1 to {MOST_STEPS} steps of at least one record: correct the schedule")
    return 2 * step_size * loss.lipschitz / batch


def rounding(*, features: int, classes: int, step_size: float, batch: int, steps: int) -> float:
    """How much farther than by the lemma two neighbours' ends can be because of float64, in L2 norm.

    u = 2⁻⁵³ is the error of one operation. Weights stay below W = LARGEST + 3 · steps: a step is no longer than 2η√2. A
    logit is a sum of d products, so wrong by (d + 2) u √d W at most; a probability by twice that, and by (c + 8) 4u for
    the exponentials and their sum; a mean gradient besides by b · 4u; the weights by 2u W in each of P numbers. Errors
    are not stretched by later steps, and the factors below are more than twice what is needed.

    Args:
        features: d.
        classes: c.
        step_size: η.
        batch: b.
        steps: of a chain.
    """
    unit, weight = 2.0**-53, LARGEST + 3 * steps
    gradient = 8 * (features + 8) * math.sqrt(features) * weight * unit + 16 * (classes + batch + 16) * unit
    step = 4 * weight * math.sqrt(features * classes) * unit + 2 * step_size * gradient
    return 2 * steps * step
