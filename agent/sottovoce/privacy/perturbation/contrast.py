"""Choose the best scheme for a ridge model from public d, c and ε.

`perturbation.select_scheme` compares errors of y^(k)x, which matter for a walking model. A ridge model is linear in the
mean y^(k)x and predicts the label with the largest of c scores. An error that is common to all c copies therefore
shifts all scores equally and does not affect the prediction. Only the error of the contrasts matters, where a contrast
is a copy minus the mean of the copies. The mean of y^(k) over k is -m with m = 1 - 2/c, so:

- for a tensor T = x ⊗ e_y, where y^(k)x = 2 T_k - Σ_j T_j, the mean over k is -m Σ_j T_j, and a fraction m²
  of all noise is common;
- for (2 q_k - 1) z, since Σ_k q_k = 1, the mean over k is -m z, and m² times the error of z is common.
"""

from sottovoce.errors import PrivacyError
from sottovoce.privacy.perturbation.choice import scheme, select_scheme
from sottovoce.privacy.perturbation.scheme import Scheme
from sottovoce.privacy.perturbation.two_part import LabelledPrivUnit

_SCHEMES = ("laplace", "privunit", "krr-privunit")


def select_scheme_for_ridge(features: int, classes: int, epsilon: float) -> Scheme:
    """Return the scheme with the least predicted error of the contrasts.

    Raises:
        PrivacyError: if no scheme supports this data and ε.
    """
    candidates = []
    for name in _SCHEMES:
        try:
            candidates.append(scheme(name, features, classes, epsilon))
        except PrivacyError:
            continue  # the scheme is too wide, or its noise exceeds the range of the grid
    return min(candidates, key=contrast_error) if candidates else select_scheme(features, classes, epsilon)


def contrast_error(candidate: Scheme) -> float:
    """Return E‖contrast's estimate - contrast‖² / ‖x‖², averaged over the copies; for two classes, Scheme.error."""
    if candidate.classes == 2:
        return candidate.error
    common = (1 - 2 / candidate.classes) ** 2
    if isinstance(candidate, LabelledPrivUnit):
        return candidate.error - common * candidate.cap.error
    return candidate.error * (1 - common)
