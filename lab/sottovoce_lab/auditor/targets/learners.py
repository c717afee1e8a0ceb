"""Observers that recover releases from a learner's messages, as a peer could."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeVar, cast

import numpy as np
from sottovoce.algorithms.contributions.public.machine import Mixer
from sottovoce.algorithms.contributions.public.shared_mean import CYCLES, SharedMean
from sottovoce.algorithms.contributions.public.state import Contribution, Contributions, ContributionsState
from sottovoce.algorithms.pairwise.public.machine import Pairwise
from sottovoce.algorithms.pairwise.public.state import Proposal
from sottovoce.algorithms.push_sum.public.machine import PushSum
from sottovoce.algorithms.push_sum.public.messages import PushSumShare
from sottovoce.algorithms.steps.public.descent import THRESHOLD_RATE, Schedule, Thresholds
from sottovoce.errors import InternalError, PrivacyError
from sottovoce.kernels.decentralised.centring import Coordinates
from sottovoce.kernels.decentralised.clipping import BIT_SHARE
from sottovoce.kernels.gossip_rules import LAMBDA, UPDATE_RULES
from sottovoce.kernels.least_squares import ridge
from sottovoce.kernels.linear import copies
from sottovoce.learning.learners import Signed
from sottovoce.privacy.perturbation import LabelledPrivUnit, Scheme
from sottovoce.privacy.terms.gradients import GradientTerms
from sottovoce.privacy.vault import Vault
from sottovoce_papers.hegedus_2017.golf.public.machine import Golf, GolfSchedule
from sottovoce_papers.hegedus_2017.golf.public.messages import GolfMessage
from sottovoce_papers.hegedus_2017.gradient_walk.public.machine import GradientWalk, GradientWalkSchedule
from sottovoce_papers.hegedus_2017.gradient_walk.public.messages import GradientWalkMessage

from sottovoce_lab.auditor.subject import AUDITED, Floats, ObservedRun, Observer
from sottovoce_lab.auditor.wiretap import PEERS, Frame, overhear

S = TypeVar("S", bound=Signed)

_UNIT = 2.0**40
_FINEST_SHARE_BITS = 40  # the finest setting of share_bits, at which a share reveals the most
_RATE = 1e-5  # small enough that the model, and hence each canary's gradient, stays close to its initial value
_SECONDS = 5.5  # a period is one second
_GOLF_SECONDS = 2.5  # long enough to send all records once to each of the two peers


def create_push_sum_observer(terms: GradientTerms, size: int, thresholds: Thresholds | None = None) -> Observer:
    """Return an observer that inverts push-sum.

    The peers send everything back, so consecutive shares differ only by the vault's answer. A share reveals the
    numerator to within 2^-40, so the observer knows each release, and the next release's point, to within a millionth
    of the noise. If devices also mix the threshold, the point includes it.
    """
    return _steps(terms, size, thresholds, _masses)


def create_contributions_observer(
    terms: GradientTerms, size: int, thresholds: Thresholds | None, shared_mean: SharedMean | None
) -> Observer:
    """Return an observer that inverts contributions.

    Each contribution adds all vault answers since the previous contribution. Here, it adds a single answer, because
    that reveals the most. If the fleet centres its records, each contribution carries the device's sum of records, from
    which the observer derives the mean as the device does.
    """
    if shared_mean is None:
        return _steps(terms, size, thresholds, lambda schedule, vault: _sums(_contributions(schedule, vault), schedule))
    schedule = _schedule(terms, size, thresholds)

    def observe(vault: Vault, count: int) -> ObservedRun:
        # a peer cannot see how many records there are
        contributions = _contributions(schedule, vault, shared_mean)
        released = {one.record_sum.tobytes(): one.record_sum for one in contributions if one.record_sum is not None}
        if not released:
            raise PrivacyError("a device did not release its sum of records")
        record_sum = next(iter(released.values()))
        mean = shared_mean.derive(ContributionsState(contributions[0].numerator, record_sum=record_sum), AUDITED)
        # Contributions are in the coordinates of the records, and the vault's gradients in those of centred records.
        numerators = Coordinates(mean, shared_mean.bias).to_centred(_sums(contributions, schedule))
        run = _invert(numerators, schedule)
        points = np.hstack([run.points, np.tile(mean, (len(run.points), 1))])
        total = record_sum.astype(np.float64) * (shared_mean.expected_records / _UNIT)
        return ObservedRun(run.values, points, versions=len(released), record_sum=total)

    return observe


def create_pairwise_observer(terms: GradientTerms, size: int, thresholds: Thresholds | None = None) -> Observer:
    """Return an observer that inverts pairwise averaging. Peers never reply, so only vault answers change the model."""
    return _steps(terms, size, thresholds, _models)


def _steps(
    terms: GradientTerms,
    size: int,
    thresholds: Thresholds | None,
    recover_numerators: Callable[[Schedule, Vault], Floats],
) -> Observer:
    schedule = _schedule(terms, size, thresholds)

    def observe(vault: Vault, count: int) -> ObservedRun:
        # a peer cannot see how many records there are
        return _invert(recover_numerators(schedule, vault), schedule)

    return observe


def _schedule(terms: GradientTerms, size: int, thresholds: Thresholds | None) -> Schedule:
    steps = terms.releases
    return Schedule(terms.learner, size, 1.0, steps, _RATE, 0.0, 1.0, 1, thresholds, share_bits=_FINEST_SHARE_BITS)


def _invert(numerators: Floats, schedule: Schedule) -> ObservedRun:
    """Return the releases that explain how the model changed in each step, and the points of their queries."""
    values: list[Floats] = []
    points: list[Floats] = []
    thresholds = schedule.thresholds
    for previous, numerator in pairwise(numerators):
        estimate = previous / _UNIT
        threshold = [] if thresholds is None else [thresholds.threshold_at(len(points), schedule.steps, estimate)]
        points.append(np.append(estimate[: schedule.size], threshold))
        values.append(_release_of_step((previous - numerator) / _UNIT, points[-1], thresholds))
    return ObservedRun(np.array(values), np.array(points))


def create_average_observer(size: int) -> Observer:
    """Return an observer that inverts averaging, in which the first share is half of the only release."""
    schedule = Schedule(AUDITED, size, 1.0, 1, -1.0, 0.0, 1.0, 1, None, asks="mean", share_bits=_FINEST_SHARE_BITS)

    def observe(vault: Vault, count: int) -> ObservedRun:
        # a peer cannot see how many records there are
        return ObservedRun(_masses(schedule, vault)[1:] / _UNIT, np.empty((1, 0)))

    return observe


def _masses(schedule: Schedule, vault: Vault) -> Floats:
    """Return the device's numerator before each step and after the last one, float64[steps + 1, width].

    The numerator is twice the share that the device sends.
    """
    numerators: list[Floats] = []
    for frame in overhear(PushSum(schedule), vault, schedule.steps + 0.5, lambda share: share):
        if not isinstance(frame.message, PushSumShare):
            raise _unexpected_message(frame)
        numerators.append(2 * frame.message.numerator.astype(np.float64))
    return np.array(numerators)


def _contributions(schedule: Schedule, vault: Vault, shared_mean: SharedMean | None = None) -> list[Contribution]:
    """Return all contributions that the device sends, to peers that contribute nothing."""
    learner = Mixer(
        schedule,
        np.zeros(schedule.size),
        owner=AUDITED,
        provenance=UncheckedProvenance(),
        capacity=len(PEERS),
        max_steps=schedule.steps + (0 if shared_mean is None else 1),
        dishonest=0.0,
        stride=1,
        shared_mean=shared_mean,
    )
    sent: list[Contribution] = []
    seconds = schedule.steps + (0.5 if shared_mean is None else CYCLES + 2.5)
    for frame in overhear(learner, vault, seconds):
        if not isinstance(frame.message, Contributions):
            raise _unexpected_message(frame)
        sent.extend(frame.message.contributions)
    return sent


def _sums(contributions: list[Contribution], schedule: Schedule) -> Floats:
    """Return the device's model before each step and after the last one, float64[steps + 1, width]."""
    initial_threshold = () if schedule.thresholds is None else schedule.thresholds.start
    numerators: list[Floats] = [_UNIT * np.append(np.zeros(schedule.size), initial_threshold)]
    sums = {
        contribution.steps - (0 if contribution.record_sum is None else 1): numerators[0] - contribution.numerator
        for contribution in contributions
    }
    for steps in range(1, schedule.steps + 1):
        numerators.append(sums.get(steps, numerators[-1]))  # a skipped step shows up as no change
    return np.array(numerators)


def _models(schedule: Schedule, vault: Vault) -> Floats:
    """Return the device's model before each step and after the last one, float64[steps + 1, width]."""
    learner = Pairwise(schedule, np.zeros(schedule.size), reach=math.inf, max_steps=schedule.steps)
    numerators: list[Floats] = []
    for frame in overhear(learner, vault, schedule.steps + 0.5):
        if not isinstance(frame.message, Proposal):
            raise _unexpected_message(frame)
        numerators.append(frame.message.numerator.astype(np.float64))
    return np.array(numerators)


def _release_of_step(change: Floats, point: Floats, thresholds: Thresholds | None) -> Floats:
    """Return the release that explains how the model changed in one step."""
    if thresholds is None:
        return change / _RATE
    gradient_share = math.sqrt(1 - BIT_SHARE**2) if thresholds.rule == "quantile" else 1.0
    size, threshold = len(point) - 1, float(point[-1])
    bits = BIT_SHARE * (2 * (change[size:] / THRESHOLD_RATE + thresholds.target) - 1)
    return np.append(change[:size] * gradient_share / (_RATE * threshold), bits)


def create_golf_observer(scheme: Scheme) -> Observer:
    """Return an observer that reads published records from the messages to both peers and counts their versions."""
    rule, fit = (UPDATE_RULES["pegasos"], None) if scheme.name == "laplace-copies" else (None, ridge)
    schedule = GolfSchedule(scheme, 1.0, 4096, 4096, each=4096)

    def observe(vault: Vault, count: int) -> ObservedRun:
        versions: dict[int, dict[bytes, Floats]] = {}
        for frame in overhear(Golf(schedule, rule, fit, "audited", UncheckedProvenance()), vault, _GOLF_SECONDS):
            if not isinstance(frame.message, GolfMessage):
                raise _unexpected_message(frame)
            for record in frame.message.records:
                values = record.values * np.float64(2.0**scheme.exponent)
                if isinstance(scheme, LabelledPrivUnit):
                    values[0] = record.values[0]
                versions.setdefault(record.slot, {})[record.values.tobytes()] = values
        if sorted(versions) != list(range(count)):
            raise PrivacyError("a device did not publish all of its records")
        first = [next(iter(versions[slot].values())) for slot in sorted(versions)]
        return ObservedRun(np.array(first), np.empty((len(first), 0)), max(map(len, versions.values()), default=1))

    return observe


def create_gradient_walk_observer(features: int, classes: int) -> Observer:
    """Return an observer that inverts the first step of a walk, taken from the zero model.

    This step is w = Σ / (nλ), sent in float32, where the number n of records is public.
    """
    schedule = GradientWalkSchedule(AUDITED, copies(classes), features, 1.0, 1, begins=True)

    def observe(vault: Vault, count: int) -> ObservedRun:
        frames = overhear(GradientWalk(schedule), vault, _SECONDS)
        if not frames:
            raise PrivacyError("a device did not forward the model")
        frame = frames[0]
        if not isinstance(frame.message, GradientWalkMessage):
            raise _unexpected_message(frame)
        values = frame.message.parameters.astype(np.float64) * (LAMBDA * count)
        return ObservedRun(values[np.newaxis], np.zeros((1, values.size)))

    return observe


@dataclass(frozen=True, slots=True)
class UncheckedProvenance:
    """A sottovoce.learning.learners.Provenance that never checks signatures."""

    def sign(self, own: S) -> S:
        """Return the document with a dummy signature; see Provenance.sign."""
        return cast(S, replace(cast(Any, own), credential=b"audited", signature=bytes(64)))

    def verify(self, published: Signed) -> None:
        """Accept any document; see Provenance.verify."""

    def admit(self, published: Signed) -> None:
        """Accept any document; see Provenance.admit."""
        self.verify(published)

    def is_revoked(self, owner: str) -> bool:
        """Return False for every owner; see Provenance.is_revoked."""
        return False


def _unexpected_message(frame: Frame) -> InternalError:
    return InternalError(
        f"a learner sent a message of an unexpected type to {frame.recipient}: this is a bug; please report it"
    )
