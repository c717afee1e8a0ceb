"""Text notation for releases, either `gaussian:sigma=2,rate=0.01,count=1000` or JSON."""

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from sottovoce.errors import PrivacyError, UsageError

if TYPE_CHECKING:
    from sottovoce.accounting.composition import Composed, Release

_KEYS = {
    "gaussian": {"sigma", "sensitivity", "rate", "batch", "of", "sampling"},
    "discrete-gaussian": {"sigma", "sensitivity", "dimensions"},
    "laplace": {"scale", "sensitivity"},
    "discrete-laplace": {"scale", "sensitivity"},
    "pure": {"epsilon"},
    "unproved": set(),
}
_ALIASES = {"noise_multiplier": "sigma", "steps": "count", "T": "count", "q": "rate", "sampling_probability": "rate"}
_ANY = {"count", "neighbouring"}
_WORDS = {
    "neighbouring": ("add-remove", "replace-one"),
    "sampling": ("poisson", "without-replacement"),
}
_MIN_SIGMA = 1e-9  # relative to the sensitivity; below this, there is no guarantee at any meaningful ε


@dataclass(frozen=True, slots=True)
class Written:
    """One release as written by the user.

    Attributes:
        mechanism: mechanism name.
        given: keys and values, except `count` and `neighbouring`.
        count: how often the release is made.
        neighbouring: the neighbouring relation, if specified.
        terms: a ledger charge, which replaces all of the above except `count`.
    """

    mechanism: str
    given: dict[str, float | str]
    count: int
    neighbouring: str | None
    terms: str | None = None


def parse_release(text: str) -> Written:
    """Parse one release.

    Raises:
        UsageError: if the text is not a release; the message describes the problem.
    """
    found = _parse_json(text) if text.lstrip().startswith("{") else _parse_plain(text)
    if "event" in found:
        count = _parse_whole_number("count", found.pop("count", 1))
        return Written("charge", {}, count, None, json.dumps(found, sort_keys=True, separators=(",", ":")))
    mechanism = found.pop("mechanism", None)
    if mechanism not in _KEYS:
        raise UsageError(f"unknown mechanism `{mechanism}`; use one of {', '.join(_KEYS)}")
    given: dict[str, float | str] = {}
    for written, value in found.items():
        key = _ALIASES.get(written, written)
        if key not in _KEYS[mechanism] | _ANY:
            raise UsageError(
                f"{mechanism} has no key `{written}`; valid keys are {', '.join(sorted(_KEYS[mechanism] | _ANY))}"
            )
        if key in given:
            raise UsageError(f"{mechanism}: `{key}` is set twice; remove one")
        given[key] = _parse_choice(key, value) if key in _WORDS else _parse_number(key, value)
    count = _parse_whole_number("count", given.pop("count", 1))
    relation = given.pop("neighbouring", None)
    if given.get("sampling") == "without-replacement" or ("batch" in given and "sampling" not in given):
        relation = relation or "replace-one"
    return Written(str(mechanism), given, count, None if relation is None else str(relation))


def relation_of(events: Sequence[Written]) -> str:
    """Return the neighbouring relation that all releases share; `add-remove` if none specifies one.

    Raises:
        UsageError: if the releases specify different relations.
    """
    named = {event.neighbouring for event in events if event.neighbouring}
    if len(named) > 1:
        raise UsageError(
            "releases under add-remove and under replace-one do not compose; set the same neighbouring= for all of them"
        )
    return named.pop() if named else "add-remove"


def compose(*releases: str, delta: float = 1e-5, epsilon: float | None = None) -> "Composed":
    """Return the joint cost of releases that touch the same unit, rounded up.

    Args:
        releases: releases in text notation, for example `gaussian:sigma=2,rate=0.01,count=1000`.
        delta: δ at which ε is computed.
        epsilon: ε at which δ is computed instead.

    Returns:
        ε and δ, and how they were computed.

    Raises:
        UsageError: if a release is invalid, or if the releases specify different neighbouring relations.
        PrivacyError: if δ is not in (0, 1), or if ε is negative or not finite.
    """
    from sottovoce.accounting import composition as accounting

    written = [parse_release(text) for text in releases]
    relation = relation_of(written)
    counts: dict[accounting.Release, int] = {}
    for one in written:
        cost = release(one, relation)
        counts[cost] = counts.get(cost, 0) + one.count
    return accounting.compose(counts, delta) if epsilon is None else accounting.compose_delta(counts, epsilon)


def release(event: Written, neighbouring: str) -> "Release":
    """Return the cost of a release.

    Raises:
        UsageError: if a value is missing or invalid.
    """
    from sottovoce.accounting import composition, discrete, events, pairs, stored

    if event.terms is not None:
        try:
            return composition.release_of(stored.event_of(event.terms))
        except PrivacyError as error:
            raise UsageError(str(error)) from error
    given, where = event.given, f"{event.mechanism}"
    if event.mechanism == "unproved":
        return composition.NOTHING
    if event.mechanism == "pure":
        return _pure(_required_value(given, "epsilon", where), law=False)
    distance = _parse_positive(given.get("sensitivity", 1.0), "sensitivity", where) * (
        2 if neighbouring == "replace-one" else 1
    )
    if event.mechanism.startswith("discrete") and distance != int(distance):
        raise UsageError(f"{where}: the sensitivity must be a whole number of grid steps")
    if event.mechanism == "discrete-laplace":
        return _pure(
            discrete.discrete_laplace_epsilon(int(distance), _required_value(given, "scale", where)), law=False
        )
    if event.mechanism == "laplace":
        return _pure(math.nextafter(distance / _required_value(given, "scale", where), math.inf), law=True)
    sigma = _required_value(given, "sigma", where)
    if sigma < _MIN_SIGMA * max(1.0, distance):
        return composition.NOTHING
    if event.mechanism == "discrete-gaussian":
        if given.get("dimensions") == 1 and sigma <= discrete.LARGEST_SUMMED:
            law = discrete.DiscreteGaussian(sigma, int(distance))
            return composition.Release(pairs=(law, law))
        variance = sigma * sigma - events.SMOOTHING_VARIANCE
        return composition.Release(mu_squared=_up(distance**2 / variance)) if variance > 0 else composition.NOTHING
    rate = _rate(given, where)
    if rate == 1:
        return composition.Release(mu_squared=_up((distance / sigma) ** 2))
    noise = sigma / _parse_positive(given.get("sensitivity", 1.0), "sensitivity", where) * (1 - 2.0**-50)
    if noise < pairs.MIN_NOISE:
        return composition.NOTHING
    q = math.nextafter(float(rate), 1.0)
    if given.get("sampling", "without-replacement" if "batch" in given else "poisson") == "without-replacement":
        if neighbouring == "add-remove":
            raise UsageError(f"{where}: a fixed-size batch reveals the number of records; set neighbouring=replace-one")
        return composition.Release(pairs=(pairs.FixedSize(q, noise), pairs.FixedSize(q, noise)))
    if neighbouring == "replace-one":
        return composition.Release(pairs=(pairs.Replaced(q, noise), pairs.Replaced(q, noise)))
    return composition.Release(pairs=(pairs.Removed(q, noise), pairs.Added(q, noise)))


def _pure(epsilon: float, *, law: bool) -> "Release":
    from sottovoce.accounting.composition import Release
    from sottovoce.accounting.pairs import Laplace, Pure

    pair = Laplace(epsilon) if law else Pure(epsilon)
    return Release(pure=epsilon, pairs=(pair, pair))


def _rate(given: dict[str, float | str], where: str) -> Fraction:
    """Return the sampling rate; 1 without sampling."""
    if "rate" in given and ("batch" in given or "of" in given):
        raise UsageError(f"{where}: set either rate, or batch and of, not both")
    if ("batch" in given) != ("of" in given):
        raise UsageError(f"{where}: batch and of must be set together, for example batch=10,of=1000")
    if "batch" in given:
        rate = Fraction(_parse_whole_number("batch", given["batch"]), _parse_whole_number("of", given["of"]))
    else:
        rate = Fraction(_parse_positive(given.get("rate", 1.0), "rate", where))
    if not 0 < rate <= 1:
        raise UsageError(f"{where}: the rate must be in (0, 1], got {float(rate):g}")
    if "sampling" in given and "rate" not in given and "batch" not in given:
        raise UsageError(f"{where}: sampling requires a rate; set rate, or batch and of")
    return rate


def _parse_plain(text: str) -> dict[str, object]:
    name, *parts = re.split(r"[:,\s]+", text.strip())
    found: dict[str, object] = {"mechanism": name}
    for part in filter(None, parts):
        key, equals, value = part.partition("=")
        if not equals or not value:
            raise UsageError(
                f"{name}: `{part}` does not have the form key=value; an example is {name}:sigma=2,count=10"
            )
        if key in found:
            raise UsageError(f"{name}: `{key}` is set twice; remove one")
        found[key] = value
    return found


def _parse_json(text: str) -> dict[str, object]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise UsageError(f"the release is not valid JSON: {error}") from error
    return dict(found)


def _parse_choice(key: str, value: object) -> str:
    if value not in _WORDS[key]:
        raise UsageError(f"{key}={value} is not supported; use {' or '.join(_WORDS[key])}")
    return str(value)


def _parse_number(key: str, value: object) -> float:
    try:
        if isinstance(value, bool):
            raise ValueError
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise UsageError(f"{key}={value}: the value must be a number") from error


def _parse_whole_number(key: str, value: object) -> int:
    number = _parse_number(key, value)
    if not (1 <= number < 2**53 and number == int(number)):
        raise UsageError(f"{key}={value}: the value must be a whole number of at least 1")
    return int(number)


def _parse_positive(value: float | str, key: str, where: str) -> float:
    number = float(value)
    if not 0 < number < math.inf:
        raise UsageError(f"{where}: {key}={value}: the value must be a positive number")
    return number


def _required_value(given: dict[str, float | str], key: str, where: str) -> float:
    if key not in given:
        raise UsageError(f"{where}: {key} is missing; an example is {where}:{key}=2")
    return _parse_positive(given[key], key, where)


def _up(value: float) -> float:
    return value * (1 + 2.0**-50)
