"""Private steps: a device queries its vault on the beats of its own clock and moves its model by each answer.

A step size that suits one data set is far too long for another whose records differ along only a few directions:
models oscillate, and the less noise there is, the more they do so. The sum of squared differences between successive
gradients reveals this, as in the step sizes of optimistic methods (Rakhlin & Sridharan 2013; Kavis et al. 2019). The
gradients' lengths do not: if devices differ, each device's gradients stay long even at the best common model.

The rule uses only the device's own releases, so it costs no privacy. The noise's share of the sum is subtracted, plus
three standard deviations, so that noise alone hardly ever shortens a step.

The threshold is sent in the query's point, and the release is returned in units of the threshold, so its privacy does
not depend on the threshold. Under `quantile` (Andrew, Thakkar, McMahan & Ramaswamy 2021), each release also contains
one noisy count: how many gradients were no longer than C_t. ln C is an additional coordinate of the mass that push-sum
mixes, and a step along it is as additive as a step along the gradient. Every device therefore follows the bits from all
devices, which together are far less noisy than its own. The threshold needs no additional messages or releases.

Everything in this module is public, because schedules are fixed before a device starts and answers are releases.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from sottovoce.kernels.decentralised.clipping import Rule, decayed_threshold, undo_normalisation
from sottovoce.privacy.api import Query

_NOISE_DEVIATIONS = 3.0
"""Standard deviations above its mean up to which the noise's share does not count as variation."""
_HALVING_VARIATION = 3.0
"""Variation at which steps are half as long as without damping, which corresponds to a few full-length oscillations. At
ε = 8, damping raises accuracy on Spambase from 0.64 to 0.88 (docs/explanation/push-sum.md)."""


@dataclass(frozen=True, slots=True)
class Damping:
    """Divides γ_t by 1 + V_t/3, where V_t is the sum of ½ ‖g_s - g_{s-1}‖² over the device's releases so far.

    Lengths are measured in B C, the length of a sum of B clipped gradients that all point in the same direction.

    Attributes:
        longest: B C, in release units.
        noise: σ, the standard deviation of the noise on each coordinate of a release.
    """

    longest: float
    noise: float

    def add(self, variation: float, previous: NDArray[np.float64], release: NDArray[np.float64]) -> float:
        """Return the variation after adding one difference, in (B C)².

        Args:
            variation: the sum so far, in (B C)².
            previous: float64[P], the previous release.
            release: float64[P], the newest release.
        """
        difference = (release - previous) / self.longest
        return variation + float(difference @ difference) / 2

    def factor(self, variation: float, differences: int, size: int) -> float:
        """Return the factor on γ, at most 1, after `differences` differences between releases with `size` numbers."""
        numbers = differences * size
        noise_share = (numbers + _NOISE_DEVIATIONS * math.sqrt(3 * numbers)) * (self.noise / self.longest) ** 2
        return 1 / (1 + max(0.0, variation - noise_share) / _HALVING_VARIATION)


THRESHOLD_RATE = 0.05
"""η_C, which is smaller than in Andrew et al. 2021, where the bits come from many more records."""

_MAX_LOG_RATIO = math.log(100.0)  # log of the maximum factor between C and C_0, which limits the effect of noise


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The rule that derives C_t from C_0.

    Attributes:
        rule: `decay`, `quantile`, or `automatic`, where C is constant and equals the length of a normalised gradient.
        initial: C_0.
        ratio: for `decay`, the fraction of C_0 that is left after the last step.
        target: for `quantile`, the target fraction of gradients no longer than C.
    """

    rule: Rule
    initial: float
    ratio: float = 1.0
    target: float = 0.5

    @property
    def start(self) -> tuple[float, ...]:
        """The initial mass in addition to the model: ln C_0 if the threshold is mixed, otherwise empty."""
        return (math.log(self.initial),) if self.rule == "quantile" else ()

    def threshold_at(self, slot: int, steps: int, estimate: NDArray[np.float64]) -> float:
        """Return C_t.

        Args:
            slot: t, starting at 0.
            steps: K.
            estimate: float64, the device's estimate, whose last entry is ln C if the threshold is mixed.
        """
        if self.rule == "decay":
            return decayed_threshold(self.initial, self.ratio, slot, steps)
        if self.rule == "automatic":
            return self.initial
        center = math.log(self.initial)
        return math.exp(min(max(float(estimate[-1]), center - _MAX_LOG_RATIO), center + _MAX_LOG_RATIO))

    def descent(self, total: NDArray[np.float64], threshold: float, rate: float, batch: float) -> NDArray[np.float64]:
        """Return the step that a release subtracts from the device's vector, float64.

        The last entry is η_C (share - target), in ln C: C exp(-η_C (share - target)) is the rule in Andrew et al.

        Args:
            total: float64, the release.
            threshold: the C_t in the query.
            rate: γ_t.
            batch: B.
        """
        total_gradient = undo_normalisation(total, self.rule, threshold)
        move = total_gradient.gradient * (rate / batch)
        if total_gradient.bits is None:
            return move
        return np.append(move, THRESHOLD_RATE * ((total_gradient.bits / batch + 1) / 2 - self.target))


_UNIT_BITS = 40
UNIT = 2.0**_UNIT_BITS  # units in 1.0
MAX_NUMERATOR = 2**60
"""Maximum magnitude of a coordinate, in units of 2^-40; adding two of them never overflows an int64."""

FOLLOWED_STEP_FACTOR = 0.25
"""Factor on the step length for followed records; with full steps, a model forgets winter data by summer."""

SHARE_BITS = 16
"""Default number of fractional bits in a vector that is sent."""


def is_in_range(numbers: NDArray[np.int64]) -> bool:
    """Return whether no coordinate is larger in magnitude than MAX_NUMERATOR."""
    return bool(numbers.min() >= -MAX_NUMERATOR and numbers.max() <= MAX_NUMERATOR)


@dataclass(frozen=True, slots=True)
class Schedule:
    """The public schedule of a device that steps along noisy sums, fixed before it starts.

    Attributes:
        learner: the learner name used in queries to the vault.
        size: the number of parameters P.
        period: the number of seconds between cycles.
        steps: the number of private gradient steps, one per cycle from the first.
        step_size: γ for the first step.
        step_decay: the fraction by which γ has decreased, linearly, by the last step.
        expected_records: B, not necessarily an integer.
        fanout: the number of peers that receive shares in one cycle.
        thresholds: how the clipping threshold changes; None if the vault's threshold is constant.
        asks: the kind of query: `gradient`, at the model; or `mean`, of the device's one vector, whatever the model.
        share_bits: z in a share is rounded to multiples of 2^-share_bits or finer.
        follows: whether windows with separate budgets are followed; each is in K releases, and B refers to one window.
        every: the number of windows between steps if one budget pays for all followed windows; otherwise 0.
        longest: the maximum γ/B if records are followed, which bounds the noise while there are few windows.
        steps_first: push-sum: whether to take the private step before sending the shares, as in AdaD²P 2024,
            Algorithm 1; if False, shares are sent first, so that a slow vault does not delay any message.
        damping: shortens the steps of contributions while gradients vary; None if γ_t is fixed.
    """

    learner: str
    size: int
    period: float
    steps: int
    step_size: float
    step_decay: float
    expected_records: float
    fanout: int
    thresholds: Thresholds | None = None
    asks: Literal["gradient", "mean"] = "gradient"
    share_bits: int = SHARE_BITS
    follows: bool = False
    every: int = 0
    longest: float = math.inf
    steps_first: bool = False
    damping: Damping | None = None

    @property
    def initial_steps(self) -> int:
        """The number of consecutive steps. With followed records, further steps wait for windows."""
        return (self.steps + 1) // 2 if self.follows else self.steps

    @property
    def width(self) -> int:
        """The length of the vector that is mixed: the model, and ln C if the threshold is also mixed."""
        return self.size + (0 if self.thresholds is None else len(self.thresholds.start))


class PendingQuery(Protocol):
    """A state with a query that the vault is answering."""

    @property
    def step(self) -> int:
        """The number of private steps finished, which is the slot of that query."""
        ...

    @property
    def threshold(self) -> float | None:
        """The C_t in the query, if the threshold varies."""
        ...


class DampedQuery(PendingQuery, Protocol):
    """A state with a pending query and with the variation between earlier releases."""

    @property
    def variation(self) -> float:
        """The sum of squared differences between releases so far; see Damping.add."""
        ...

    @property
    def last(self) -> NDArray[np.float64] | None:
        """The last release, float64[P]; None before the first and after a restart."""
        ...


def next_query(schedule: Schedule, step: int, estimate: NDArray[np.float64]) -> tuple[float | None, Query]:
    """Return the next query, for the gradient at the model. If the threshold varies, it is the point's last entry.

    Args:
        schedule: the public schedule.
        step: the number of private steps finished.
        estimate: float64[width], the device's estimate of the fleet's mean.

    Returns:
        C_t if it varies, else None; and the query.
    """
    threshold, point = None, estimate[: schedule.size]
    if schedule.thresholds is not None:
        threshold = schedule.thresholds.threshold_at(min(step, schedule.steps - 1), schedule.steps, estimate)
        point = np.append(point, threshold)
    return threshold, Query(schedule.learner, schedule.asks, step, point if schedule.asks == "gradient" else point[:0])


def next_beat(due: float, now: float, period: float) -> float:
    """Return the first beat from now on, for a clock that had a beat at `due`."""
    return due + math.ceil((now - due) / period) * period


def contribution(
    schedule: Schedule, state: PendingQuery, value: NDArray[np.int64], step: float, units: int = 1
) -> NDArray[np.int64]:
    """Return γ_t/B · release in units of 2^-40, int64[width], which is post-processing and equal on every machine.

    Args:
        schedule: provides γ_t and B.
        state: provides t, and C_t if it varies.
        value: int64, the release on its grid.
        step: the grid step.
        units: see Release; for followed records, the number of windows.
    """
    if schedule.thresholds is None or state.threshold is None:
        return move(schedule, state.step, value, step, units)
    total = value * np.float64(step)
    length, batch = rate(schedule, state.step, units), expected_batch(schedule, units)
    return round_and_clip(schedule.thresholds.descent(total, state.threshold, length, batch) * UNIT)


def damped_contribution(
    schedule: Schedule, state: DampedQuery, value: NDArray[np.int64], step: float, units: int = 1
) -> tuple[NDArray[np.int64], float, NDArray[np.float64] | None]:
    """Return a release's contribution, shortened by the schedule's damping, and the new `variation` and `last`.

    Args:
        schedule: provides γ_t, B and the damping rule.
        state: provides t, C_t if it varies, the last release, and the variation so far.
        value: int64, the release on its grid.
        step: the grid step.
        units: see contribution.
    """
    change, damping = contribution(schedule, state, value, step, units), schedule.damping
    if damping is None:
        return change, 0.0, None
    release, variation = value[: schedule.size] * np.float64(step), state.variation
    if state.last is not None:
        variation = damping.add(variation, state.last, release)
    return round_and_clip(change * damping.factor(variation, state.step, schedule.size)), variation, release


def move(
    schedule: Schedule, steps_done: int, value: NDArray[np.int64], step: float, units: int = 1
) -> NDArray[np.int64]:
    """Return the move under a constant threshold, for one device or many, as int64 in the shape of `value`.

    Args:
        schedule: provides γ_t and B.
        steps_done: t, the number of private steps before this one.
        value: int64[..., P], releases on their grid.
        step: the grid step.
        units: see contribution.
    """
    return round_and_clip(value * (rate(schedule, steps_done, units) / expected_batch(schedule, units) * step * UNIT))


def rate(schedule: Schedule, steps_done: int, units: int = 1) -> float:
    """Return γ_t after `steps_done` steps. With followed records, it decreases only during the initial steps."""
    largest = schedule.step_size
    if schedule.follows:
        largest = min(largest, schedule.longest * expected_batch(schedule, units))
        if steps_done >= schedule.initial_steps:
            largest, steps_done = FOLLOWED_STEP_FACTOR * largest, schedule.initial_steps
    return largest * (1 - schedule.step_decay * (steps_done / max(1, schedule.steps - 1)))


def expected_batch(schedule: Schedule, units: int) -> float:
    """Return B for a release: the expected number of records in its sum."""
    return schedule.expected_records * (units if schedule.follows else 1)


def round_numerator(numerator: NDArray[np.int64], share_bits: int) -> NDArray[np.int64]:
    """Return int64[width] in units of 2^-40 as rounded for sending, to the nearest multiples of 2^-share_bits."""
    dropped_bits = _UNIT_BITS - share_bits
    return (numerator + (1 << dropped_bits >> 1)) >> dropped_bits << dropped_bits


def round_and_clip(units: NDArray[np.floating[Any]]) -> NDArray[np.int64]:
    """Return the nearest integers, clipped to the maximum magnitude of a numerator."""
    nearest: NDArray[np.int64] = np.clip(np.rint(units), -MAX_NUMERATOR, MAX_NUMERATOR).astype(np.int64)
    return nearest
