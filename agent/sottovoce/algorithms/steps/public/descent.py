"""Private steps: a device's question to its vault on each beat of its own clock, and the move that an answer makes.

Everything in this module is public: a schedule is fixed before a device starts, and an answer is a release.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from sottovoce.algorithms.steps.public.damping import Damping
from sottovoce.algorithms.steps.public.thresholds import Thresholds
from sottovoce.door import Query

_UNIT_BITS = 40
UNIT = 2.0**_UNIT_BITS  # units in 1.0
MAX_NUMERATOR = 2**60
"""The largest magnitude of one coordinate, in units of 2^-40: two of them never overflow an int64."""

REMEMBERS = 0.25
"""Factor on a step's length where steps follow records: with whole steps a model forgets winter data by summer."""

SHARE_BITS = 16
"""Fractional bits of a vector that is sent, unless configured."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Public schedule of a device that steps along noised sums, fixed before it starts.

    Attributes:
        learner: the name under which it asks the vault.
        size: P.
        period: seconds from cycle to cycle.
        steps: private gradient steps, one per cycle from the first.
        step_size: γ of the first step.
        step_decay: share of γ lost, linearly, by the last step.
        expected_records: B, not necessarily a whole number.
        fanout: number of peers that receive shares in one cycle.
        thresholds: movement of the clipping threshold; None where the vault's threshold is constant.
        asks: the kind of question: `gradient` at the model; `mean`, the device's one vector, wherever the model is.
        share_bits: z of a share is rounded to multiples of some 2^-share_bits, at most.
        follows: windows that pay for themselves are followed: a window is in K releases, and B is for one window.
        every: windows from one step to the next, where they are followed and the device pays for all of them; else 0.
        longest: largest γ/B of records that are followed, so that the noise over few windows is bounded.
        steps_first: push-sum: take the private step before the shares are sent, as AdaD²P 2024, Algorithm 1, has it;
            else send first, so that a slow vault holds up no message.
        damping: rule that shortens steps of contributions while gradients vary; None if γ_t is fixed.
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
    def at_once(self) -> int:
        """Number of consecutive steps; further steps, of followed records, wait for windows."""
        return (self.steps + 1) // 2 if self.follows else self.steps

    @property
    def width(self) -> int:
        """Length of the vector that is mixed: the model, and ln C where the threshold is mixed too."""
        return self.size + (0 if self.thresholds is None else len(self.thresholds.start))


class Asked(Protocol):
    """Question in a state that the vault is answering."""

    @property
    def step(self) -> int:
        """Private steps finished; the slot of that question."""
        ...

    @property
    def threshold(self) -> float | None:
        """C_t of the question, if the threshold varies."""
        ...


class Damped(Asked, Protocol):
    """State with such a question, and with the variation of earlier releases."""

    @property
    def variation(self) -> float:
        """Sum of squared differences between releases so far; see Damping.add."""
        ...

    @property
    def last(self) -> NDArray[np.float64] | None:
        """float64[P], the last release; None before the first, and after a restart."""
        ...


def question(plan: Schedule, step: int, estimate: NDArray[np.float64]) -> tuple[float | None, Query]:
    """Return the next question, for the gradient at the model; if the threshold varies, it is the point's last entry.

    Args:
        plan: plan of the run.
        step: private steps finished.
        estimate: float64[width], the device's estimate of the fleet's mean.

    Returns:
        C_t where it moves, else None; and the question.
    """
    threshold, point = None, estimate[: plan.size]
    if plan.thresholds is not None:
        threshold = plan.thresholds.threshold_at(min(step, plan.steps - 1), plan.steps, estimate)
        point = np.append(point, threshold)
    return threshold, Query(plan.learner, plan.asks, step, point if plan.asks == "gradient" else point[:0])


def next_beat(due: float, now: float, period: float) -> float:
    """Return the first beat from now on of the clock that had a beat at `due`."""
    return due + math.ceil((now - due) / period) * period


def contribution(
    schedule: Schedule, state: Asked, value: NDArray[np.int64], step: float, units: int = 1
) -> NDArray[np.int64]:
    """Return γ_t/B · release in units of 2^-40, int64[width]: post-processing, rounded alike on every machine.

    Args:
        schedule: gives γ_t and B.
        state: gives t, and C_t where it moves.
        value: int64, the release on its grid.
        step: the grid's step.
        units: see Release; of records that are followed, the number of windows.
    """
    if schedule.thresholds is None or state.threshold is None:
        return move(schedule, state.step, value, step, units)
    total = value * np.float64(step)
    length, batch = rate(schedule, state.step, units), expected_batch(schedule, units)
    return bounded(schedule.thresholds.descent(total, state.threshold, length, batch) * UNIT)


def damped_contribution(
    schedule: Schedule, state: Damped, value: NDArray[np.int64], step: float
) -> tuple[NDArray[np.int64], float, NDArray[np.float64] | None]:
    """Return the contribution of a release, shortened by the schedule's damping, and the new `variation` and `last`.

    Args:
        schedule: gives γ_t, B and the rule.
        state: gives t, C_t where it moves, the last release, and the variation of all.
        value: int64, the release on its grid.
        step: the grid's step.
    """
    moved, damping = contribution(schedule, state, value, step), schedule.damping
    if damping is None:
        return moved, 0.0, None
    release, variation = value[: schedule.size] * np.float64(step), state.variation
    if state.last is not None:
        variation = damping.add(variation, state.last, release)
    return bounded(moved * damping.factor(variation, state.step, schedule.size)), variation, release


def move(schedule: Schedule, done: int, value: NDArray[np.int64], step: float, units: int = 1) -> NDArray[np.int64]:
    """Return the move under a constant threshold, of one device or many: int64 of the shape of `value`.

    Args:
        schedule: gives γ_t and B.
        done: t, private steps before this one.
        value: int64[..., P], releases on their grid.
        step: the grid's step.
        units: see contribution.
    """
    return bounded(value * (rate(schedule, done, units) / expected_batch(schedule, units) * step * UNIT))


def rate(schedule: Schedule, done: int, units: int = 1) -> float:
    """Return γ_t of the step after `done` others; if records are followed, it falls until `at_once` steps are taken."""
    largest = schedule.step_size
    if schedule.follows:
        largest = min(largest, schedule.longest * expected_batch(schedule, units))
        if done >= schedule.at_once:
            largest, done = REMEMBERS * largest, schedule.at_once
    return largest * (1 - schedule.step_decay * (done / max(1, schedule.steps - 1)))


def expected_batch(schedule: Schedule, units: int) -> float:
    """Return B of a release."""
    return schedule.expected_records * (units if schedule.follows else 1)


def rounded(numerator: NDArray[np.int64], share_bits: int) -> NDArray[np.int64]:
    """Return the value that is sent for int64[width] in units of 2^-40: the nearest multiples of 2^-share_bits."""
    coarser = _UNIT_BITS - share_bits
    return (numerator + (1 << coarser >> 1)) >> coarser << coarser


def bounded(units: NDArray[np.floating[Any]]) -> NDArray[np.int64]:
    """Return the nearest integers, none of them larger than a numerator may be."""
    near: NDArray[np.int64] = np.clip(np.rint(units), -MAX_NUMERATOR, MAX_NUMERATOR).astype(np.int64)
    return near
