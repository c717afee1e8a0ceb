"""The estimates that an opened sum yields, from the task's settings alone."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
from sottovoce.data.products import make_products
from sottovoce.errors import DataError
from sottovoce.kernels.profile import Profile
from sottovoce.node.opened_sum import OpenedSum

from sottovoce_operator.estimate import Estimate, Floats
from sottovoce_operator.products import Opened, estimate_products

_DAY_LENGTHS = (24, 48, 96)
"""Numbers of values that a day's profile has: one for each hour, half hour or quarter of an hour."""

_MINUTES_A_DAY = 1440
_FIRST_DAY = date(1970, 1, 1)


def estimates(opened: OpenedSum) -> list[Estimate]:
    """Return the products of an opened sum.

    Raises:
        DataError: if the sum does not fit its task.
    """
    settings = opened.read_task().settings
    return _products(opened, settings) if settings.get("learner.products") else [_mean(opened)]


def _products(opened: OpenedSum, settings: Any) -> list[Estimate]:
    """Return the products of a task with `learner.products`."""
    made = make_products(
        settings["learner.products"],
        settings["learner.shares"],
        settings["learner.flags"],
        settings["learner.public"],
        settings["learner.fleet_size"],
    )
    if opened.days is None or made.size != len(opened.total):
        raise _unfit(opened)
    days = (opened.days[0] - _FIRST_DAY).days, (opened.days[1] - _FIRST_DAY).days
    fleet, fleet_size = len(opened.owners), settings["learner.fleet_size"]
    return estimate_products(Opened(made, opened.sums, opened.members, opened.sigma, days, fleet, fleet_size))


def _mean(opened: OpenedSum) -> Estimate:
    """Return the mean of the members' vectors."""
    settings = opened.read_task().settings
    profile = _profile(settings)
    if profile.size != len(opened.total):
        raise _unfit(opened)
    values = profile.vector(opened.sums / opened.members)
    errors = opened.sigma / opened.members * _coefficient_norms(profile)
    prior = np.array(profile.prior) if profile.prior else None
    labels, times = _labels(settings, profile.width, opened.days)
    return Estimate(
        name="mean",
        title="Mean of the members",
        unit="",
        labels=labels,
        values=values,
        errors=errors,
        error_sources=("noise",),
        prior=prior,
        prior_error=None if prior is None else _prior_error(values - prior, errors),
        days=None if opened.days is None else (opened.days[1] - opened.days[0]).days + 1,
        times=times,
        per_row=profile.width if profile.width in _DAY_LENGTHS else None,
        remarks=_remarks(settings, profile),
    )


def _unfit(opened: OpenedSum) -> DataError:
    return DataError(
        f"the result has {len(opened.total)} numbers, which do not fit its task; get the file again, or use the "
        "version of Sottovoce that the fleet uses"
    )


def _profile(settings: Any) -> Profile:
    prior, harmonics = settings.get("learner.prior"), settings.get("learner.harmonics")
    if isinstance(prior, str):
        raise DataError(
            "the task contains only the digest of its long prior, so its result cannot be computed from the file"
        )
    return Profile(
        int(settings["data.features"]),
        float(settings["learner.clip"]),
        tuple(prior or ()),
        harmonics,
        settings.get("learner.shape_clip"),
    )


def _coefficient_norms(profile: Profile) -> Floats:
    """Return by how much noise with σ = 1 in each coefficient moves each value, float64[width]."""
    if profile.harmonics is None:
        return np.ones(profile.width)
    zero = profile.vector(np.zeros(profile.size))
    moves = np.array([profile.vector(unit) - zero for unit in np.eye(profile.size)])
    norms: Floats = np.sqrt(np.sum(moves**2, axis=0))
    return norms


def _prior_error(differences: Floats, errors: Floats) -> float:
    """Return an estimate of the prior's root mean squared error.

    The mean squared difference between the values and the prior exceeds the prior's own by that of the noise.
    """
    return float(np.sqrt(max(0.0, float(np.mean(differences**2) - np.mean(errors**2)))))


def _labels(
    settings: Any, width: int, days: tuple[date, date] | None
) -> tuple[tuple[str, ...], tuple[datetime, ...] | None]:
    """Return what each value is about, and its time if the values are a day's profile."""
    columns = settings.get("data.columns")
    if isinstance(columns, list) and len(columns) == width:
        return tuple(map(str, columns)), None
    if width not in _DAY_LENGTHS:
        return tuple(str(i) for i in range(width)), None
    first = datetime.combine(date.min if days is None else days[0], datetime.min.time(), UTC)
    times = tuple(first + timedelta(minutes=i * _MINUTES_A_DAY // width) for i in range(width))
    return tuple(f"{time:%H:%M}" for time in times), None if days is None else times


def _remarks(settings: Any, profile: Profile) -> tuple[str, ...]:
    clip = f"{profile.clip:g}" if profile.harmonics is None else f"{profile.clip:g} (level) and {profile.shape_clip:g}"
    remarks = [
        "The standard errors are those of the noise. They do not include which homes took part, or the bias of the "
        f"clip, {clip}."
    ]
    if profile.harmonics is not None:
        remarks.append(f"The values are smooth: a level and {profile.harmonics} harmonics of the day.")
    if settings.get("privacy.cell.spare"):
        remarks.append("The noise also pays for rounds that may fail (privacy.cell.spare).")
    return tuple(remarks)
