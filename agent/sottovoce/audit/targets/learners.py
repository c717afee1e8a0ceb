"""What a peer makes of a learner's messages: the releases behind them, as far as they can be had."""

import math
from dataclasses import dataclass, replace

import numpy as np

from sottovoce.audit.subject import Floats, Sighting, Watch
from sottovoce.audit.targets import sums, walks
from sottovoce.audit.wiretap import Frame, overheard
from sottovoce.errors import InternalError, PrivacyError
from sottovoce.kernels import LAMBDA, RULES, copies, ridge
from sottovoce.kernels.decentralised.normalisation import BIT_SHARE
from sottovoce.learners import (
    Golf,
    GolfMessage,
    GolfSchedule,
    GradientWalk,
    GradientWalkMessage,
    GradientWalkSchedule,
    PublishedRecord,
    PushSum,
    PushSumShare,
    Schedule,
    Thresholds,
)
from sottovoce.learners.thresholds import THRESHOLD_RATE
from sottovoce.perturbation import LabelledPrivUnit, Scheme
from sottovoce.vault import Vault

_UNIT = 2.0**40
_RATE = 1e-5  # so small a step keeps the model, hence every canary's gradient, close to where it began
_SECONDS = 5.5  # cycles are one second
_GOLF_SECONDS = 2.5  # two messages with all records, one to each peer


def push_sum(learner: str, size: int, thresholds: Thresholds | None = None) -> Watch:
    """Undoes push-sum: from one share to the next, all that changes of itself is the vault's answer.

    A share tells the numerator to one unit of 2^-40, so a release is known to a millionth of its noise, and so is the
    point at which the next one is taken; where the threshold is mixed, it is part of the point.
    """
    schedule = Schedule(learner, size, 1.0, sums.SLOTS, _RATE, 0.0, 1.0, 1, thresholds)

    def watch(vault: Vault, count: int) -> Sighting:
        del count  # private
        numerator, weight = np.zeros(schedule.width), _UNIT
        values: list[Floats] = []
        points: list[Floats] = []
        for frame in overheard(PushSum(schedule), vault, _SECONDS):
            share = frame.message
            if not isinstance(share, PushSumShare):
                raise _other(frame)
            before = 2.0 * share.numerator
            if points:
                values.append(_released((numerator - before) / _UNIT, points[-1], thresholds))
            if len(values) == sums.SLOTS:
                break
            numerator, weight = before / 2, weight / 2
            estimate = numerator / weight
            beside = () if thresholds is None else (thresholds.at(len(points), sums.SLOTS, estimate),)
            points.append(np.append(estimate[:size], beside))
        return Sighting(np.array(values), np.array(points))

    return watch


def _released(moved: Floats, point: Floats, thresholds: Thresholds | None) -> Floats:
    """The release behind what one step took away."""
    if thresholds is None:
        return moved / _RATE
    rest = math.sqrt(1 - BIT_SHARE**2) if thresholds.rule == "quantile" else 1.0
    size, threshold = len(point) - 1, float(point[-1])
    bits = BIT_SHARE * (2 * (moved[size:] / THRESHOLD_RATE + thresholds.target) - 1)
    return np.append(moved[:size] * rest / (_RATE * threshold), bits)


def golf(scheme: Scheme) -> Watch:
    """Reads the published records off the messages to both peers, and counts the versions of each."""
    rule, fit = (RULES["pegasos"], None) if scheme.name == "laplace-copies" else (None, ridge)
    schedule = GolfSchedule(scheme, 1.0, 4096, 4096)

    def watch(vault: Vault, count: int) -> Sighting:
        versions: dict[int, dict[bytes, Floats]] = {}
        for frame in overheard(Golf(schedule, rule, fit, "audited", _Signature()), vault, _GOLF_SECONDS):
            if not isinstance(frame.message, GolfMessage):
                raise _other(frame)
            for record in frame.message.records:
                values = record.values * np.float64(2.0**scheme.exponent)
                if isinstance(scheme, LabelledPrivUnit):
                    values[0] = record.values[0]
                versions.setdefault(record.slot, {})[record.values.tobytes()] = values
        if sorted(versions) != list(range(count)):
            raise PrivacyError("a device did not publish all of its records")
        first = [next(iter(versions[slot].values())) for slot in sorted(versions)]
        return Sighting(np.array(first), np.empty((len(first), 0)), max(map(len, versions.values()), default=1))

    return watch


def gradient_walk(features: int) -> Watch:
    """Undoes the first step of a walk from the model 0: w = Σ / (nλ), in float32; n is public."""
    schedule = GradientWalkSchedule("gradient-walk", copies(walks.CLASSES), features, 1.0, 1, begins=True)

    def watch(vault: Vault, count: int) -> Sighting:
        frames = overheard(GradientWalk(schedule), vault, _SECONDS)
        if not frames:
            raise PrivacyError("a device did not send the model on")
        frame = frames[0]
        if not isinstance(frame.message, GradientWalkMessage):
            raise _other(frame)
        values = frame.message.parameters.astype(np.float64) * (LAMBDA * count)
        return Sighting(values[np.newaxis], np.zeros((1, values.size)))

    return watch


@dataclass(frozen=True, slots=True)
class _Signature:
    """Implements sottovoce.learners.Provenance with signatures that nobody checks."""

    def signed(self, record: PublishedRecord) -> PublishedRecord:
        return replace(record, credential=b"audited", signature=bytes(64))

    def verify(self, record: PublishedRecord) -> None:
        pass


def _other(frame: Frame) -> InternalError:
    return InternalError(f"a learner sent a message of another kind to {frame.recipient}: report this")
