"""Public transforms of features, which depend only on a single record and on public declarations.

This independence is a privacy requirement. The privacy statement accounts for what one record can change; if a mean, a
scale or even a rounding depended on the rest of the batch, one record would change how the others are transformed, and
the vault would charge for the wrong sensitivity. Therefore, no training-set statistic is used, and every row is
bit-identical whether it is transformed alone or with others: arrays are first made C-contiguous, aligned float64, so
each sum runs along one contiguous row in an order that depends only on the number of columns.

Each feature is first clamped to its declared range, if there is one. Then the steps of the transform, written as
`STEP,STEP(NUMBER),…`, are applied from left to right:

    squash(S)    with declared bounds: scale each feature to [0, 1]; without: log(S)
    log(S)       sign(x)·log(1 + |x|/S)
    pool(K)      means over the K × K squares of a square image
    dct(K)       the K × K lowest frequencies of a square image (orthonormal DCT-II)
    hog(K)       histograms of oriented gradients of a square image, four numbers for each K × K square
    scatter(J)   wavelet scattering of a square image with one or three channels, over J scales
    harmonics(K) the level, and the cosine and sine of the first K frequencies, of a row of evenly spaced numbers
    subtract(C)  subtract the constant C from every feature
    centre       subtract the record's own mean over its features
    unit         divide the record by its own L2 norm
    rms          divide the record by its own root mean square
    bias(B)      append the constant B

Three transforms have names: `centred-unit` is `squash(1),centre,unit,bias(0.3)`, for linear models; `standard` is
`squash(1),centre,rms`, for models with layers; and `none` has no steps.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sottovoce.data import scattering, steps
from sottovoce.data.bounds import Bounds
from sottovoce.data.records import Records, add_identities
from sottovoce.errors import DataError
from sottovoce.suggestions import suggest_name

BIAS = 0.3
"""Constant in the last column of `centred_unit`, which gives a record a norm of at most sqrt(1 + BIAS**2)."""

TransformName = str
"""Name or steps of a transform."""

_NAMED = {"centred-unit": f"squash(1),centre,unit,bias({BIAS})", "standard": "squash(1),centre,rms"}
_NONE = "none"
_MAX_STEPS = 16
NEW_COLUMNS = ("pool", "dct", "hog", "scatter", "harmonics")
"""Steps that produce different columns, to which the declared bounds do not apply."""

Rows = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Step:
    """A step of a transform.

    Attributes:
        function: maps the rows, the bounds and the step's number to the new rows.
        number: kind of number that the step requires; None if it has no number.
        width: maps d and the step's number to the number of columns that the step produces from d columns.
    """

    function: Callable[[Rows, Bounds | None, float], Rows]
    number: str | None = None
    width: Callable[[int, float], int] = lambda d, _: d


_STEPS: dict[str, _Step] = {
    "squash": _Step(steps.squash, "positive"),
    "log": _Step(lambda rows, _, scale: steps.log(rows, scale), "positive"),
    "pool": _Step(
        lambda rows, _, side: steps.pool(rows, int(side)),
        "whole",
        lambda d, side: steps.pooled_width(d, int(side)) ** 2,
    ),
    "dct": _Step(
        lambda rows, _, side: steps.dct(rows, int(side)), "whole", lambda d, side: steps.dct_width(d, int(side))
    ),
    "hog": _Step(
        lambda rows, _, side: steps.hog(rows, int(side)), "whole", lambda d, side: steps.hog_width(d, int(side))
    ),
    "scatter": _Step(
        lambda rows, _, scales: scattering.scatter(rows, int(scales)),
        "whole",
        lambda d, scales: scattering.scatter_width(d, int(scales)),
    ),
    "harmonics": _Step(
        lambda rows, _, count: steps.harmonics(rows, int(count)),
        "whole",
        lambda d, count: steps.harmonics_width(d, int(count)),
    ),
    "subtract": _Step(lambda rows, _, constant: rows - constant, "positive"),
    "centre": _Step(lambda rows, _, __: steps.centre(rows)),
    "unit": _Step(lambda rows, _, __: steps.unit(rows)),
    "rms": _Step(lambda rows, _, __: steps.rms(rows)),
    "bias": _Step(lambda rows, _, value: steps.bias(rows, value), "positive", lambda d, _: d + 1),
}


@lru_cache(maxsize=64)
def parse_steps(name: TransformName) -> tuple[tuple[str, float], ...]:
    """Return the steps of a transform, each with its number, or 0 if it has none.

    Raises:
        DataError: if this is not a valid transform; the message suggests a similar step or states the number's range.
    """
    if name == _NONE:
        return ()
    parts = _NAMED.get(name, name).split(",")
    if len(parts) > _MAX_STEPS:
        raise DataError(f"Transform {name[:40]}… has more than {_MAX_STEPS} steps. Remove some of them.")
    return tuple(_parse_step(part.strip()) for part in parts)


def step_width(step: str, number: float, d: int) -> int:
    """Return the number of columns that one step produces from d columns.

    Raises:
        DataError: if the step does not fit this many features.
    """
    return _STEPS[step].width(d, number)


def apply(name: TransformName, features: Rows, bounds: Bounds | None) -> Rows:
    """Apply the declared transform.

    Args:
        name: name or steps, see the module docstring.
        features: float64[n,d], finite; n may be 0.
        bounds: declared range, float64[d] twice, or None.

    Returns:
        float64[n,width(name, d)], a new array. Each row is bit-identical regardless of which other rows are present. A
        row whose numbers are too large for the transform is 0.

    Raises:
        DataError: if the bounds are not declared for d features, or a step does not fit them.
    """
    if bounds is not None and any(side.shape != features.shape[1:] for side in bounds):
        raise DataError(
            f"Bounds are not declared for all {features.shape[1]} features. Declare a low and a high value for each."
        )
    rows = np.array(features, dtype=np.float64, order="C", copy=True)  # numpy allocates aligned memory
    if bounds is not None:
        np.clip(rows, *bounds, out=rows)
    with np.errstate(all="ignore"):  # a warning would reveal something about a record
        for step, number in parse_steps(name):
            rows = np.ascontiguousarray(_STEPS[step].function(rows, bounds, number))
            if step in NEW_COLUMNS:
                bounds = None  # the bounds applied only to the previous columns
    rows[~np.logical_and.reduce(np.isfinite(rows), axis=1)] = 0.0
    return rows


def prepare_records(raw: Records, transform: TransformName, bounds: Bounds | None) -> Records:
    """Return the records as the vault uses them: clamped to the declared bounds and then transformed individually."""
    prepared = f"transform {transform}" + (
        "" if bounds is None else f" within declared bounds of {len(bounds[0])} columns"
    )
    return replace(add_identities(raw), features=apply(transform, raw.features, bounds), prepared=prepared)


def width(name: TransformName, d: int) -> int:
    """Return the number of columns that `apply` produces from d features.

    Raises:
        DataError: if a step does not fit this many features.
    """
    for step, number in parse_steps(name):
        d = step_width(step, number, d)
    return d


def centred_unit(features: Rows, bounds: Bounds | None) -> Rows:
    """Apply the transform `centred-unit`: scale, centre and normalise each record on its own, and append a bias.

    With bounds, each feature is clamped to its declared range and scaled to [0, 1] (0 if the range has no width);
    without bounds, it becomes sign(x)·log(1 + |x|). Then the record's own mean is subtracted, the record is divided by
    its L2 norm (a record of equal features becomes 0), and the constant `BIAS` is appended.

    Args:
        features: float64[n,d], finite; n may be 0.
        bounds: declared range, float64[d] twice, or None.

    Returns:
        float64[n,d+1]; the first d columns of a row have norm 1 (up to rounding) or 0.

    Raises:
        DataError: if the bounds are not declared for d features.
    """
    return apply("centred-unit", features, bounds)


def _parse_step(text: str) -> tuple[str, float]:
    match = re.fullmatch(r"([a-z-]+)(?:\(([^()]*)\))?", text)
    name = match[1] if match else text
    if not match or name not in _STEPS:
        known_names = [*_STEPS, *_NAMED, _NONE]
        similar = suggest_name(name, known_names)
        hint = f"Did you mean {similar!r}? " if similar else ""
        raise DataError(f"There is no transform step {text!r}. {hint}Steps: {', '.join(known_names)}.")
    kind = _STEPS[name].number
    if (kind is None) != (match[2] is None):
        example = f"{name}(2)" if kind else name
        raise DataError(f"Transform step {text!r}: write it like {example}.")
    if kind is None:
        return name, 0.0
    try:
        number = float(match[2])
    except ValueError:
        number = math.nan
    if not 0 < number <= 1e9 or (kind == "whole" and number != int(number)):
        raise DataError(f"Transform step {text!r}: the number must be {kind} and at most 10⁹.")
    return name, number
