"""Choose a scheme by name, or choose the best one for public d, c and ε."""

from collections.abc import Callable

from sottovoce.errors import PrivacyError
from sottovoce.privacy.perturbation.cap import MAX_EPSILON, MIN_EPSILON
from sottovoce.privacy.perturbation.exact import Exact
from sottovoce.privacy.perturbation.laplace import Laplace, LaplaceCopies
from sottovoce.privacy.perturbation.priv_unit import PrivUnit
from sottovoce.privacy.perturbation.scheme import Scheme, copy_count
from sottovoce.privacy.perturbation.two_part import LabelledPrivUnit

MAX_WIDTH = 2**20
_SCHEMES: dict[str, Callable[[int, int, float], Scheme]] = {
    "laplace-copies": LaplaceCopies,
    "laplace": Laplace,
    "privunit": PrivUnit,
    "krr-privunit": LabelledPrivUnit,
}
RESERVED_NAMES = (*_SCHEMES, "best", "exact")
"""Reserved names, which other packages must not use."""
_REGISTERED: dict[str, Callable[[int, int, float], Scheme]] = {}
"""Schemes that other packages have registered on this device, and with which its peers also perturb their records."""
_SOUND = ("laplace", "privunit", "krr-privunit")


def scheme(name: str, features: int, classes: int, epsilon: float | None) -> Scheme:
    """Return the scheme `name` for d features and c classes at ε.

    Args:
        name: `laplace-copies`, `laplace`, `privunit` or `krr-privunit`; `exact` for no noise.
        features: d ≥ 1, the number of features in the transformed record.
        classes: c ≥ 2, the number of classes.
        epsilon: ε of one release, from 2^-16 to 500; None for `exact` only.

    Raises:
        PrivacyError: if the scheme is unknown or does not support this d, c and ε.
    """
    if features < 1 or classes < 2:
        raise PrivacyError(
            f"cannot release records with {features} features and {classes} classes; set data.features to at least 1 "
            "and data.classes to at least 2"
        )
    if (name == "exact") != (epsilon is None):
        raise PrivacyError(
            f"scheme `{name}` cannot be used with ε = {'none' if epsilon is None else format(epsilon, 'g')}: "
            "`exact` does not accept an ε, and all other schemes require one"
        )
    if epsilon is None:
        return _check_width(Exact(features, classes))
    make = _SCHEMES.get(name) or _REGISTERED.get(name)
    if make is None:
        raise PrivacyError(f"unknown scheme `{name}`; use one of {', '.join(_SCHEMES)}, or exact")
    if not MIN_EPSILON <= epsilon <= MAX_EPSILON:
        raise PrivacyError(
            f"ε = {epsilon:g} is out of range; set privacy.epsilon between {MIN_EPSILON:g} and {MAX_EPSILON:g}"
        )
    return _check_width(make(features, classes, epsilon))


def register_scheme(name: str, make: Callable[[int, int, float], Scheme]) -> None:
    """Register another package's scheme under `name`; `make` creates it for (features, classes, epsilon)."""
    _REGISTERED[name] = make


def select_scheme(features: int, classes: int, epsilon: float | None) -> Scheme:
    """Return the scheme with the smallest predicted error (`Scheme.error`) for public d, c and ε.

    At small ε, this is PrivUnit on the tensor; at larger ε, randomised response with PrivUnit; for None, `exact`.

    Raises:
        PrivacyError: see `scheme`.
    """
    if epsilon is None:
        return scheme("exact", features, classes, None)
    wide = copy_count(classes) * features > MAX_WIDTH
    candidates = [scheme(name, features, classes, epsilon) for name in (_SOUND[-1:] if wide else _SOUND)]
    return min(candidates, key=lambda candidate: candidate.error)


def _check_width(candidate: Scheme) -> Scheme:
    if candidate.width > MAX_WIDTH:
        raise PrivacyError(
            f"a record released by `{candidate.name}` would contain {candidate.width} numbers, but the maximum "
            f"is {MAX_WIDTH}; use `krr-privunit`, or fewer features"
        )
    return candidate
