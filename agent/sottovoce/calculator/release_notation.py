"""Notation for releases: `Gaussian(sigma=2, rate=0.01)`, the text `gaussian:sigma=2,rate=0.01,count=1000`, or JSON."""

import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, asdict, dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from sottovoce.errors import PrivacyError, UsageError
from sottovoce.privacy.accounting.gaussian import check_numbers
from sottovoce.suggestions import explain_arguments

if TYPE_CHECKING:
    from sottovoce.calculator.composition import Composed, Release

_KEYS = {
    "gaussian": {"sigma", "sensitivity", "rate", "batch", "of", "sampling"},
    "discrete-gaussian": {"sigma", "sensitivity", "dimensions"},
    "laplace": {"scale", "sensitivity"},
    "discrete-laplace": {"scale", "sensitivity"},
    "pure": {"epsilon"},
    "unproved": set(),
}
_ALIASES = {"noise_multiplier": "sigma", "steps": "count", "T": "count", "q": "rate", "sampling_probability": "rate"}
_COMMON_KEYS = {"count", "neighbouring"}
_CHOICES = {
    "neighbouring": ("add-remove", "replace-one"),
    "sampling": ("poisson", "without-replacement"),
}
_MIN_SIGMA = 1e-9  # relative to the sensitivity; below this, there is no guarantee at any meaningful ε


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Gaussian noise, as an argument of `compose`.

    Attributes:
        sigma: standard deviation of the noise, in the units of the sensitivity.
        sensitivity: L2 sensitivity to adding or removing a record.
        rate: Poisson sampling rate; None if each release uses all records.
        batch: number of records in a batch; only together with `of`.
        of: number of records from which each batch is drawn.
        sampling: `poisson` or `without-replacement`; the default with `batch` is the latter, otherwise the former.
        count: how often the release is made.
        neighbouring: `add-remove` or `replace-one`; None for the relation of the other releases.
    """

    sigma: float
    _: KW_ONLY
    sensitivity: float = 1.0
    rate: float | None = None
    batch: int | None = None
    of: int | None = None
    sampling: str | None = None
    count: int = 1
    neighbouring: str | None = None


@dataclass(frozen=True, slots=True)
class DiscreteGaussian:
    """Discrete Gaussian noise on whole numbers, as an argument of `compose`; see Gaussian for the other attributes.

    Attributes:
        dimensions: number of values in a release; a single value is charged exactly.
    """

    sigma: float
    _: KW_ONLY
    sensitivity: float = 1.0
    dimensions: int | None = None
    count: int = 1
    neighbouring: str | None = None


@dataclass(frozen=True, slots=True)
class Laplace:
    """Laplace noise, as an argument of `compose`; see Gaussian for the other attributes.

    Attributes:
        scale: scale of the noise, in the units of the sensitivity.
        sensitivity: L1 sensitivity to adding or removing a record.
    """

    scale: float
    _: KW_ONLY
    sensitivity: float = 1.0
    count: int = 1
    neighbouring: str | None = None


@dataclass(frozen=True, slots=True)
class DiscreteLaplace(Laplace):
    """Discrete Laplace noise on whole numbers, as an argument of `compose`; see Laplace for the attributes."""


@dataclass(frozen=True, slots=True)
class Pure:
    """Any release with a pure ε, as an argument of `compose`; see Gaussian for the other attributes."""

    epsilon: float
    _: KW_ONLY
    count: int = 1
    neighbouring: str | None = None


_NAMES: dict[type, str] = {
    Gaussian: "gaussian",
    DiscreteGaussian: "discrete-gaussian",
    Laplace: "laplace",
    DiscreteLaplace: "discrete-laplace",
    Pure: "pure",
}
WrittenRelease = str | Gaussian | DiscreteGaussian | Laplace | DiscreteLaplace | Pure
"""A release as a caller writes it."""


@dataclass(frozen=True, slots=True)
class ParsedRelease:
    """One release as written by the user.

    Attributes:
        mechanism: mechanism name.
        parameters: keys and values, except `count` and `neighbouring`.
        count: how often the release is made.
        neighbouring: the neighbouring relation, if specified.
        terms: a ledger charge, which replaces all of the above except `count`.
    """

    mechanism: str
    parameters: dict[str, float | str]
    count: int
    neighbouring: str | None
    terms: str | None = None


def parse_release(written: WrittenRelease) -> ParsedRelease:
    """Parse one release.

    Raises:
        UsageError: if it is not a release; the message describes the problem.
    """
    if isinstance(written, str):
        fields = _parse_json(written) if written.lstrip().startswith("{") else _parse_plain(written)
    elif (name := _NAMES.get(type(written))) is not None:
        set_fields = {key: value for key, value in asdict(written).items() if value is not None}
        fields = {"mechanism": name, **set_fields}
        check_numbers(**{key: value for key, value in set_fields.items() if key not in _CHOICES})
    else:
        raise UsageError(
            f"{written!r} is not a release; write, for example, Gaussian(sigma=1, count=100) or the text "
            "gaussian:sigma=1,count=100"
        )
    if "event" in fields:
        count = _parse_whole_number("count", fields.pop("count", 1))
        return ParsedRelease("charge", {}, count, None, json.dumps(fields, sort_keys=True, separators=(",", ":")))
    mechanism = fields.pop("mechanism", None)
    if mechanism not in _KEYS:
        raise UsageError(f"unknown mechanism `{mechanism}`; use one of {', '.join(_KEYS)}")
    parameters: dict[str, float | str] = {}
    for name, value in fields.items():
        key = _ALIASES.get(name, name)
        if key not in _KEYS[mechanism] | _COMMON_KEYS:
            raise UsageError(
                f"{mechanism} has no key `{name}`; valid keys are {', '.join(sorted(_KEYS[mechanism] | _COMMON_KEYS))}"
            )
        if key in parameters:
            raise UsageError(f"{mechanism}: `{key}` is set twice; remove one")
        parameters[key] = _parse_choice(key, value) if key in _CHOICES else _parse_number(key, value)
    count = _parse_whole_number("count", parameters.pop("count", 1))
    relation = parameters.pop("neighbouring", None)
    if parameters.get("sampling") == "without-replacement" or ("batch" in parameters and "sampling" not in parameters):
        relation = relation or "replace-one"
    return ParsedRelease(str(mechanism), parameters, count, None if relation is None else str(relation))


def shared_relation(releases: Sequence[ParsedRelease]) -> str:
    """Return the neighbouring relation that all releases share; `add-remove` if none specifies one.

    Raises:
        UsageError: if the releases specify different relations.
    """
    relations = {release.neighbouring for release in releases if release.neighbouring}
    if len(relations) > 1:
        raise UsageError(
            "releases under add-remove and under replace-one do not compose; set the same neighbouring= for all of them"
        )
    return relations.pop() if relations else "add-remove"


@explain_arguments({"target_delta": "delta", "target_epsilon": "epsilon"})
def compose(
    *releases: WrittenRelease | Iterable[WrittenRelease], delta: float = 1e-5, epsilon: float | None = None
) -> "Composed":
    """Return the joint cost of releases that touch the same unit, rounded up.

    Args:
        releases: releases or lists of releases, such as `Gaussian(sigma=2, rate=0.01, count=1000)`, or in text notation
            `gaussian:sigma=2,rate=0.01,count=1000`.
        delta: δ at which ε is computed; 0 if each release has a pure ε.
        epsilon: ε at which δ is computed instead.

    Returns:
        ε and δ, and how they were computed.

    Raises:
        UsageError: if a release is invalid, or if the releases specify different neighbouring relations.
        PrivacyError: if δ is not in [0, 1), or is 0 although a release has no pure ε; or if ε is negative or infinite.
    """
    from sottovoce.calculator import composition as accounting

    check_numbers(delta=delta, **({} if epsilon is None else {"epsilon": epsilon}))
    parsed_releases = [
        parse_release(written)
        for part in releases
        for written in (part if isinstance(part, Iterable) and not isinstance(part, str) else (part,))
    ]
    relation = shared_relation(parsed_releases)
    counts: dict[accounting.Release, int] = {}
    for parsed in parsed_releases:
        cost = release(parsed, relation)
        counts[cost] = counts.get(cost, 0) + parsed.count
    return accounting.compose(counts, delta) if epsilon is None else accounting.compose_delta(counts, epsilon)


def release(event: ParsedRelease, neighbouring: str) -> "Release":
    """Return the cost of a release.

    Raises:
        UsageError: if a value is missing or invalid.
    """
    from sottovoce.calculator import composition
    from sottovoce.privacy.accounting import discrete, event_parser, events, pairs

    if event.terms is not None:
        try:
            return composition.release_from_event(event_parser.parse_event(event.terms))
        except PrivacyError as error:
            raise UsageError(str(error)) from error
    parameters, mechanism = event.parameters, event.mechanism
    if event.mechanism == "unproved":
        return composition.NO_GUARANTEE
    if event.mechanism == "pure":
        return _pure_release(_required_value(parameters, "epsilon", mechanism), law=False)
    sensitivity = _parse_positive(parameters.get("sensitivity", 1.0), "sensitivity", mechanism)
    distance = sensitivity * (2 if neighbouring == "replace-one" else 1)
    if event.mechanism.startswith("discrete") and distance != int(distance):
        raise UsageError(f"{mechanism}: the sensitivity must be a whole number of grid steps")
    if event.mechanism == "discrete-laplace":
        return _pure_release(
            discrete.discrete_laplace_epsilon(int(distance), _required_value(parameters, "scale", mechanism)), law=False
        )
    if event.mechanism == "laplace":
        return _pure_release(
            math.nextafter(distance / _required_value(parameters, "scale", mechanism), math.inf), law=True
        )
    sigma = _required_value(parameters, "sigma", mechanism)
    if sigma < _MIN_SIGMA * max(1.0, distance):
        return composition.NO_GUARANTEE
    if event.mechanism == "discrete-gaussian":
        if parameters.get("dimensions") == 1 and sigma <= discrete.MAX_SUMMED_SIGMA:
            law = discrete.DiscreteGaussian(sigma, int(distance))
            return composition.Release(pairs=(law, law))
        variance = sigma * sigma - events.SMOOTHING_VARIANCE
        if variance <= 0:
            return composition.NO_GUARANTEE
        return composition.Release(mu_squared=_round_up(distance**2 / variance))
    rate = _sampling_rate(parameters, mechanism)
    if rate == 1:
        return composition.Release(mu_squared=_round_up((distance / sigma) ** 2))
    noise = sigma / sensitivity * (1 - 2.0**-50)
    if noise < pairs.MIN_NOISE:
        return composition.NO_GUARANTEE
    q = math.nextafter(float(rate), 1.0)
    sampling = parameters.get("sampling", "without-replacement" if "batch" in parameters else "poisson")
    if sampling == "without-replacement":
        if neighbouring == "add-remove":
            raise UsageError(
                f"{mechanism}: a fixed-size batch reveals the number of records; set neighbouring=replace-one"
            )
        return composition.Release(pairs=(pairs.FixedSizePair(q, noise), pairs.FixedSizePair(q, noise)))
    if neighbouring == "replace-one":
        return composition.Release(pairs=(pairs.ReplacedPair(q, noise), pairs.ReplacedPair(q, noise)))
    return composition.Release(pairs=(pairs.RemovedPair(q, noise), pairs.AddedPair(q, noise)))


def _pure_release(epsilon: float, *, law: bool) -> "Release":
    from sottovoce.calculator.composition import Release
    from sottovoce.privacy.accounting.pairs import LaplacePair, PurePair

    pair = LaplacePair(epsilon) if law else PurePair(epsilon)
    return Release(pure=epsilon, pairs=(pair, pair))


def _sampling_rate(parameters: dict[str, float | str], mechanism: str) -> Fraction:
    """Return the sampling rate, or 1 if the release is not sampled."""
    if "rate" in parameters and ("batch" in parameters or "of" in parameters):
        raise UsageError(f"{mechanism}: set either rate, or batch and of, not both")
    if ("batch" in parameters) != ("of" in parameters):
        raise UsageError(f"{mechanism}: `batch` and `of` must be set together, for example batch=10,of=1000")
    if "batch" in parameters:
        rate = Fraction(_parse_whole_number("batch", parameters["batch"]), _parse_whole_number("of", parameters["of"]))
    else:
        rate = Fraction(_parse_positive(parameters.get("rate", 1.0), "rate", mechanism))
    if not 0 < rate <= 1:
        raise UsageError(f"{mechanism}: the rate must be in (0, 1], got {float(rate):g}")
    if "sampling" in parameters and "rate" not in parameters and "batch" not in parameters:
        raise UsageError(f"{mechanism}: sampling requires a rate; set rate, or batch and of")
    return rate


def _parse_plain(text: str) -> dict[str, object]:
    name, *parts = re.split(r"[:,\s]+", text.strip())
    fields: dict[str, object] = {"mechanism": name}
    for part in filter(None, parts):
        key, equals, value = part.partition("=")
        if not equals or not value:
            raise UsageError(f"{name}: `{part}` is not in the form key=value; for example, {name}:sigma=2,count=10")
        if key in fields:
            raise UsageError(f"{name}: `{key}` is set twice; remove one")
        fields[key] = value
    return fields


def _parse_json(text: str) -> dict[str, object]:
    try:
        fields = json.loads(text)
    except ValueError as error:
        raise UsageError(f"the release is not valid JSON: {error}") from error
    return dict(fields)


def _parse_choice(key: str, value: object) -> str:
    if value not in _CHOICES[key]:
        raise UsageError(f"{key}={value} is not supported; use {' or '.join(_CHOICES[key])}")
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


def _parse_positive(value: float | str, key: str, mechanism: str) -> float:
    number = float(value)
    if not 0 < number < math.inf:
        raise UsageError(f"{mechanism}: {key}={value}: the value must be a positive number")
    return number


def _required_value(parameters: dict[str, float | str], key: str, mechanism: str) -> float:
    if key not in parameters:
        raise UsageError(f"{mechanism}: {key} is missing; for example, {mechanism}:{key}=2")
    return _parse_positive(parameters[key], key, mechanism)


def _round_up(value: float) -> float:
    return value * (1 + 2.0**-50)
