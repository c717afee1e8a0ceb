"""Parts of push-sum SGD: push-sum, clipd2p, and learners that differ from clipd2p in their thresholds."""

import math
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.algorithms.family import (
    NOISE_DISTANCE,
    Family,
    FirstStep,
    LearnerAndCodec,
    Limits,
    SignalAndNoise,
    StoredRecords,
    build_kernel,
    noise_bounded_step,
    settings_of,
)
from sottovoce.algorithms.pairwise import MAX_NUMBERS
from sottovoce.algorithms.published import published_terms
from sottovoce.algorithms.push_sum.centring import describe_centre, gradient_mu, record_sum, sum_noise
from sottovoce.algorithms.push_sum.settings import PushSumSettings
from sottovoce.algorithms.push_sum.signal import max_units, signal_and_noise
from sottovoce.algorithms.push_sum.step_count import (
    CONTRIBUTIONS_NOISE_DISTANCE,
    MAX_CONTRIBUTIONS_STEP_FACTOR,
    clip_norm,
    derives_step_size_from_noise,
    max_steps,
    step_count,
)
from sottovoce.config import AgentConfig
from sottovoce.errors import ConfigError
from sottovoce.kernels.decentralised.clipping import Rule
from sottovoce.learning.model_names import has_graph
from sottovoce.privacy.terms import Terms
from sottovoce.privacy.terms.gradients import GradientTerms, NormalisedTerms

if TYPE_CHECKING:
    from sottovoce.algorithms.contributions.public.acceptance import StepBound
    from sottovoce.algorithms.contributions.public.shared_mean import SharedMean
    from sottovoce.algorithms.steps.public.descent import Damping, Schedule
    from sottovoce.learning.learners import Provenance

INITIAL_SEED = 0
"""Seed for the public initial model, which is the same in every fleet."""

_USUAL_CONTRIBUTORS = 64
_FEED_CONTRIBUTORS = 1024
"""With a live feed, a device signs one contribution a day and its model is small, so whole streets fit."""
_MAX_STORED_NUMBERS = 2**22
"""Maximum total size of all contributions: 32 MiB, and five times that while their mean is computed."""

_MAX_STEP_FACTOR = 2.0  # maximum step size, as a multiple of the default
_MAX_LAST_STEP = 0.25
"""With contributions: maximum last step size, as a multiple of the default. With longer last steps, models for tabular
data oscillate: at ε = 3, accuracy on Spambase falls from 0.86 to 0.75 (docs/explanation/push-sum.md)."""
_REGRESSION_STEP_SIZE, _REGRESSION_NOISE_DISTANCE = 4.0, 1.5  # docs/decisions/0023-forecast-windows.md
_DEVICE_STEP_SIZE = 0.08  # step size per expected record, if the privacy unit is the device
_DAYS_PER_YEAR = 365
_EXACT_SHARE_BITS = 40  # the papers do not round
_NOISE_TO_ROUNDING_RATIO = 4
"""A step's noise, as a multiple of the rounding step. Only the sum of all steps is rounded: of the noise in 48 steps,
rounding adds a hundredth of a percent to the variance. Each doubling costs a bit per value, of some five (decision
44)."""
_UNCLIPPED_GRAPH_STEP_SIZE = 0.1
_UNCLIPPED_STEP_SIZES = {"ridge": 2.0, "mlp": 5.0}  # step sizes for models whose unclipped gradients are long


def build_parts(config: AgentConfig) -> Family:
    """Return the parts of a push-sum SGD learner."""
    learner = settings_of(config, PushSumSettings)
    kernel = build_kernel(config)
    record_sum(config)  # refuses settings without a proof or a place for it
    _check_size(config, kernel.size)
    if learner.start and len(learner.start) != kernel.size:
        raise ConfigError(
            f"learner.start: {len(learner.start)} numbers are set, but this model has {kernel.size} parameters: set "
            "one number per parameter, or remove this key"
        )

    def make_learner(owner: str, provenance: "Provenance", stored_records: StoredRecords) -> LearnerAndCodec:
        schedule = build_schedule(config, kernel.size)
        initial = np.array(learner.start) if learner.start else kernel.initial(INITIAL_SEED)
        if learner.mixing == "contributions":
            from sottovoce.algorithms.contributions.codec import ContributionsCodec
            from sottovoce.algorithms.contributions.public.machine import Mixer

            shared_mean = _shared_mean(config)
            mixer = Mixer(
                schedule,
                initial,
                owner=owner,
                provenance=provenance,
                capacity=contributors(config, kernel.size),
                max_steps=max_steps(config) + (0 if shared_mean is None else 1),
                dishonest=learner.dishonest,
                bound=_step_bound(config, schedule),
                shapes=tuple(kernel.shapes.values()),
                shared_mean=shared_mean,
            )
            return mixer, ContributionsCodec(mixer)
        if learner.mixing == "pairwise":
            from sottovoce.algorithms.pairwise.codec import PairwiseCodec
            from sottovoce.algorithms.pairwise.public.machine import Pairwise

            pairwise = Pairwise(schedule, initial, reach=max_step_length(config, schedule), max_steps=max_steps(config))
            return pairwise, PairwiseCodec(pairwise)
        from sottovoce.algorithms.push_sum.codec import PushSumCodec
        from sottovoce.algorithms.push_sum.public.machine import PushSum

        push_sum = PushSum(schedule, initial)  # push-sum mass is anonymous
        return push_sum, PushSumCodec(push_sum)

    terms = published_terms("push_sum", config) if learner.fidelity == "paper" else _terms(config)

    def signal() -> SignalAndNoise | None:
        return signal_and_noise(config, build_schedule(config, kernel.size), clip_norm(config))

    return Family(
        kernel,
        kernel,
        terms,
        make_learner,
        signal=signal,
        first_step=lambda: first_step(config, kernel.size),
        centre=lambda: describe_centre(config),
    )


def _check_size(config: AgentConfig, size: int) -> None:
    """Check that the model's answers fit into broker messages and its contributions into a small device's memory.

    Raises:
        ConfigError: if the model is too large for its mixing; the message states the limit.
    """
    mixing = settings_of(config, PushSumSettings).mixing
    if mixing == "pairwise" and size > MAX_NUMBERS:
        raise ConfigError(
            f"learner.mixing: a model with {size} parameters is too large for pairwise averaging, because an answer "
            f'can contain at most {MAX_NUMBERS} values; set mixing = "push-sum"'
        )
    if mixing == "contributions":
        contributors(config, size)


def max_contributors(config: AgentConfig, size: int) -> int:
    """Return how many other devices' contributions fit into a device's memory, for a model with `size` parameters."""
    return _MAX_STORED_NUMBERS // _stored_values(config, size) - 1


def _stored_values(config: AgentConfig, size: int) -> int:
    records = record_sum(config)
    return size + (0 if records is None else records.columns)


def contributors(config: AgentConfig, size: int) -> int:
    """Return how many other devices' contributions to store: as configured, or as many as are useful and fit.

    Args:
        config: the agent configuration, whose learner mixes contributions.
        size: the number of the model's parameters; a contribution has as many values, and those of a sum of records.

    Raises:
        ConfigError: if the contributions do not fit into a small device's memory.
    """
    learner, values = settings_of(config, PushSumSettings), _stored_values(config, size)
    maximum = max_contributors(config, size)
    usual = _FEED_CONTRIBUTORS if config.follows else _USUAL_CONTRIBUTORS
    count = min(usual, max(2, maximum)) if learner.contributors is None else learner.contributors
    if count > maximum:
        remedy = (
            f"set at most {maximum}" if maximum >= 2 else 'the model is too large for them: set mixing = "push-sum"'
        )
        raise ConfigError(
            f"learner.contributors: {count} contributions with {values} values each exceed the memory limit of a "
            f"device, which is {_MAX_STORED_NUMBERS} values; {remedy}"
        )
    return count


def max_step_length(config: AgentConfig, schedule: "Schedule") -> float:
    """Return the length of the longest typical step, a full batch of gradients plus noise; infinity without clipping.

    With K steps and noise z = √K/μ per clip, the noise in one step moves a model with P parameters by γ C √P z/B. With
    a live feed, this noise moves the model no farther than it would with a single window.
    """
    if settings_of(config, PushSumSettings).algorithm.noiseless:
        return math.inf
    longest = schedule.step_size / schedule.expected_records * max_units(config, schedule) * clip_norm(config)
    pace = min(schedule.step_size / schedule.expected_records, schedule.longest)
    return longest + _noise(config, pace) * math.sqrt(schedule.width)


def _shared_mean(config: AgentConfig) -> "SharedMean | None":
    """Return the rule by which the fleet centres its records, or None if it does not."""
    from sottovoce.algorithms.contributions.public.shared_mean import SharedMean

    records = record_sum(config)
    if records is None:
        return None
    return SharedMean(
        columns=records.columns,
        bias=records.bias,
        expected_records=config.data.expected_records,
        noise=sum_noise(config, records),
        dishonest=settings_of(config, PushSumSettings).dishonest,
    )


def _step_bound(config: AgentConfig, schedule: "Schedule") -> "StepBound | None":
    """Return how far a step of length 1 moves a contribution, or None without clipping."""
    from sottovoce.algorithms.contributions.public.acceptance import StepBound
    from sottovoce.algorithms.steps.public.descent import rate

    if settings_of(config, PushSumSettings).algorithm.noiseless:
        return None
    records = schedule.expected_records
    # With a live feed, a step over a single window is shorter, and only then is its noise as loud as bounded here.
    longest = schedule.step_size / rate(schedule, 0)
    signal = longest * max_units(config, schedule) * clip_norm(config) / records
    return StepBound(signal, _noise(config, 1.0 / records))


def _noise(config: AgentConfig, pace: float) -> float:
    """Return the standard deviation of the noise that a step with γ/B = `pace` adds to a parameter, γ C √K/(B μ)."""
    if math.isinf(config.privacy.epsilon):
        return 0.0
    return pace * clip_norm(config) * math.sqrt(step_count(config)) / gradient_mu(config)


def build_schedule(config: AgentConfig, size: int) -> "Schedule":
    """Return the public schedule for a push-sum learner whose model has `size` parameters."""
    from sottovoce.algorithms.steps.public.descent import Schedule, Thresholds

    learner, rule = settings_of(config, PushSumSettings), _rule(config)
    paper, largest = learner.fidelity == "paper", first_step(config, size).step_size
    return Schedule(
        learner=learner.name,
        size=size,
        period=learner.period,
        steps=step_count(config),
        step_size=largest,
        step_decay=_step_decay(config, largest),
        expected_records=1.0 if paper else _batch(config),
        fanout=learner.fanout or (2 if learner.mixing == "contributions" else 1),
        thresholds=None
        if paper or rule is None
        else Thresholds(rule, clip_norm(config), learner.clip_decay, learner.clip_quantile),
        share_bits=_share_bits(config, size),
        follows=_follows_windows(config),
        every=_windows_between_steps(config),
        longest=_largest_pace(config, size) if _follows_windows(config) else math.inf,
        steps_first=paper,
        damping=_damping(config),
    )


def _windows_between_steps(config: AgentConfig) -> int:
    """Return the number of windows between steps that spreads the steps over a year, or 0 if steps are not spread."""
    if not config.follows or config.unit != "device":
        return 0
    return math.ceil(_DAYS_PER_YEAR / max(1, step_count(config)))


def _damping(config: AgentConfig) -> "Damping | None":
    """Return the rule that shortens the steps of contributions, or None if it does not apply to this configuration."""
    from sottovoce.algorithms.steps.public.descent import Damping

    learner = settings_of(config, PushSumSettings)
    classifies = config.data.classes > 1 and not learner.algorithm.noiseless
    if (
        not classifies
        or learner.mixing != "contributions"
        or not derives_step_size_from_noise(config)
        or config.follows
    ):
        return None
    clip = _released_clip(config)
    return Damping(longest=_batch(config) * clip, noise=_noise(config, clip / clip_norm(config)))


def _share_bits(config: AgentConfig, size: int) -> int:
    """Return the fractional bits of a share: as configured, or few enough for a step's noise to hide the rounding."""
    from sottovoce.algorithms.steps.public.descent import SHARE_BITS

    learner = settings_of(config, PushSumSettings)
    if learner.share_bits is not None:
        return learner.share_bits
    if learner.fidelity == "paper":
        return _EXACT_SHARE_BITS
    adds_noise = not (
        learner.algorithm.noiseless or math.isinf(config.privacy.epsilon) or step_count(config) == 0 or config.follows
    )
    if learner.mixing != "contributions" or not adds_noise:
        return SHARE_BITS
    noise = _noise(config, first_step(config, size).step_size / _batch(config))
    return min(SHARE_BITS, max(0, math.ceil(math.log2(_NOISE_TO_ROUNDING_RATIO / noise))))


def _follows_windows(config: AgentConfig) -> bool:
    """Return whether the device follows a live feed whose days have separate budgets."""
    return config.follows and config.unit == "window"


def _terms(config: AgentConfig) -> Terms:
    learner, data, rule = settings_of(config, PushSumSettings), config.data, _rule(config)
    sums = GradientTerms(
        learner=learner.name,
        releases=step_count(config),
        clip=None if learner.algorithm.noiseless else _released_clip(config),
        windows=data.windows,
        sampling=learner.sampling,
        batch=min(learner.batch, _expected_records(config)),
        of=_expected_records(config),
        records=record_sum(config),
    )
    return sums if rule is None else NormalisedTerms(sums, rule)


def _rule(config: AgentConfig) -> Rule | None:
    """Return the rule by which the clipping threshold changes; None if it is constant or nothing is clipped."""
    learner = settings_of(config, PushSumSettings)
    return None if learner.clipping == "constant" or learner.algorithm.noiseless else learner.clipping


def _released_clip(config: AgentConfig) -> float:
    """Return C in units of a release: 1 if the threshold changes, since releases are then in units of the threshold."""
    return clip_norm(config) if _rule(config) is None else 1.0


def _expected_records(config: AgentConfig) -> int:
    """Return the expected number of records per device as an integer, at least 1."""
    return max(1, round(config.data.expected_records))


def _batch(config: AgentConfig) -> float:
    """Return B, the expected number of records in a sum."""
    learner = settings_of(config, PushSumSettings)
    if learner.sampling == "poisson":
        return float(min(learner.batch, _expected_records(config)))
    return config.data.expected_records


def first_step(config: AgentConfig, size: int) -> FirstStep:
    """Return the first step, whose γ is as configured or follows a public rule that depends on the noise.

    K steps with noise z = √K/μ per clip move the model by γ C √(K P) z/B = γ C K √P / (B μ). A model performs best if
    this distance is about 120, or about 150 with contributions, whose steps shrink further than those of push-sum. The
    rule holds for any budget, size and number of records (docs/explanation/push-sum.md). A regression model, whose
    weights are all of the same magnitude, performs best if noise moves it far less. It therefore starts with smaller
    steps, whether the privacy unit is a record or a window.
    """
    learner = settings_of(config, PushSumSettings)
    rate, is_automatic, limits = learner.rate, learner.step_size is None, None
    if learner.fidelity == "paper":
        rate = learner.step_size or 0.03  # as printed, for a perceptron on MNIST
    elif is_automatic and _follows_windows(config):
        rate = _REGRESSION_STEP_SIZE
    elif is_automatic and config.data.classes == 1:
        device_level = config.unit == "device"  # a single clipped sum shows a step's direction, but hardly its length
        largest = _DEVICE_STEP_SIZE * config.data.expected_records if device_level else _REGRESSION_STEP_SIZE
        limits = _REGRESSION_NOISE_DISTANCE, largest
    elif is_automatic and learner.name == "push-sum":
        default = _UNCLIPPED_GRAPH_STEP_SIZE if has_graph(learner.chosen_model) else rate
        rate = _UNCLIPPED_STEP_SIZES.get(learner.chosen_model, default)
    elif derives_step_size_from_noise(config):
        if learner.mixing == "contributions":
            limits = CONTRIBUTIONS_NOISE_DISTANCE, MAX_CONTRIBUTIONS_STEP_FACTOR * rate
        else:
            limits = NOISE_DISTANCE, _MAX_STEP_FACTOR * rate
    return FirstStep(step_count(config), rate if limits is None else _bounded_step(config, size, limits), limits)


def _step_decay(config: AgentConfig, step_size: float) -> float:
    """Return the fraction of γ lost by the last step: as configured, or so that contributions end with short steps."""
    learner = settings_of(config, PushSumSettings)
    if learner.step_decay is None and learner.mixing == "contributions" and config.data.classes > 1:
        return max(learner.decay, 1 - _MAX_LAST_STEP * learner.default_rate / step_size)
    return learner.decay


def _largest_pace(config: AgentConfig, size: int) -> float:
    """Return an upper bound on γ/B for a live feed: a regression's limit, which applies to any number of windows."""
    if settings_of(config, PushSumSettings).step_size is not None:
        return math.inf
    return _bounded_step(config, size, (_REGRESSION_NOISE_DISTANCE, math.inf)) / config.data.expected_records


def _bounded_step(config: AgentConfig, size: int, limits: Limits) -> float:
    """Return the γ at which noise moves a model by the permitted distance, capped at the largest permitted γ."""
    steps, records = step_count(config), config.data.expected_records
    mu = None if math.isinf(config.privacy.epsilon) else gradient_mu(config)
    clip = clip_norm(config)
    return noise_bounded_step(config, size, steps=steps, clip=clip, records=records, limits=limits, mu=mu)
