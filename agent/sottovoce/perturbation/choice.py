"""Choice of a scheme: by name, or the best one for public d, c and ε."""

from collections.abc import Callable

from sottovoce.errors import PrivacyError
from sottovoce.perturbation.cap import MAX_EPSILON, MIN_EPSILON
from sottovoce.perturbation.exact import Exact
from sottovoce.perturbation.laplace import Laplace, LaplaceCopies
from sottovoce.perturbation.priv_unit import PrivUnit
from sottovoce.perturbation.scheme import Scheme, copies_of
from sottovoce.perturbation.two_part import LabelledPrivUnit

MAX_WIDTH = 2**20
_SCHEMES: dict[str, Callable[[int, int, float], Scheme]] = {
    "laplace-copies": LaplaceCopies,
    "laplace": Laplace,
    "privunit": PrivUnit,
    "krr-privunit": LabelledPrivUnit,
}
OWN = (*_SCHEMES, "best", "exact")
"""Reserved names, which no other package may use."""
_BROUGHT: dict[str, Callable[[int, int, float], Scheme]] = {}
"""Schemes from other packages that this device uses; its peers' records are perturbed by them, too."""
_SOUND = ("laplace", "privunit", "krr-privunit")


def scheme(name: str, features: int, classes: int, epsilon: float | None) -> Scheme:
    """Return the scheme `name` for d features and c classes at ε.

    Args:
        name: `laplace-copies`, `laplace`, `privunit` or `krr-privunit`; `exact` for no noise.
        features: d ≥ 1, the features of the transformed record.
        classes: c ≥ 2.
        epsilon: ε of one release, from 2^-16 to 500; None for `exact` only.

    Raises:
        PrivacyError: if there is no such scheme, or it does not support this d, c and ε.
    """
    if features < 1 or classes < 2:
        raise PrivacyError(
            f"no record release for {features} features and {classes} classes: "
            "declare data.features of 1 or more and data.classes of 2 or more"
        )
    if (name == "exact") != (epsilon is None):
        raise PrivacyError(
            f"scheme `{name}` and ε = {'none' if epsilon is None else format(epsilon, 'g')} cannot be combined: "
            "`exact` takes no ε, and without an ε only `exact` is available"
        )
    if epsilon is None:
        return _check_width(Exact(features, classes))
    make = _SCHEMES.get(name) or _BROUGHT.get(name)
    if make is None:
        raise PrivacyError(f"no scheme `{name}`: choose one of {', '.join(_SCHEMES)}, or exact")
    if not MIN_EPSILON <= epsilon <= MAX_EPSILON:
        raise PrivacyError(
            f"ε = {epsilon:g} is out of range: set privacy.epsilon between {MIN_EPSILON:g} and {MAX_EPSILON:g}"
        )
    return _check_width(make(features, classes, epsilon))


def register_scheme(name: str, make: Callable[[int, int, float], Scheme]) -> None:
    """Register another package's scheme, made for (features, classes, epsilon), so that `scheme` knows it."""
    _BROUGHT[name] = make


def best(features: int, classes: int, epsilon: float | None) -> Scheme:
    """Return the scheme with the least predicted error (`Scheme.error`), which depends on public d, c and ε alone.

    At small ε it is PrivUnit on the tensor, at larger ε randomised response with PrivUnit. Without ε it is `exact`.

    Raises:
        PrivacyError: see `scheme`.
    """
    if epsilon is None:
        return scheme("exact", features, classes, None)
    wide = copies_of(classes) * features > MAX_WIDTH
    candidates = [scheme(name, features, classes, epsilon) for name in (_SOUND[-1:] if wide else _SOUND)]
    return min(candidates, key=lambda candidate: candidate.error)


def _check_width(candidate: Scheme) -> Scheme:
    if candidate.width > MAX_WIDTH:
        raise PrivacyError(
            f"a record released by `{candidate.name}` would take {candidate.width} numbers of {MAX_WIDTH} at most: "
            "choose `krr-privunit`, or declare fewer features"
        )
    return candidate
