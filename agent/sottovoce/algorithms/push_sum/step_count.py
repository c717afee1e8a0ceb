"""How many private steps a push-sum learner takes, and the step-size limits that determine this number."""

import math

from sottovoce.algorithms.family import settings_of
from sottovoce.algorithms.push_sum.settings import PushSumSettings
from sottovoce.config import AgentConfig
from sottovoce.data import width
from sottovoce.learning.settings import STEPS
from sottovoce.privacy.vault import clipped_sum_mu

MAX_CONTRIBUTIONS_STEP_FACTOR = 8.0
"""Maximum step size with contributions, whose mean is bounded, as a multiple of the default step size."""
CONTRIBUTIONS_NOISE_DISTANCE = 150.0
"""Distance by which noise may move a model with contributions; longer than with push-sum, whose steps shrink less."""
_MAX_STEPS = 144
DEFAULT_BUDGET = (2.0, 1e-5)
"""ε and δ for which defaults are chosen, so that devices whose budgets differ have the same."""


def step_count(config: AgentConfig) -> int:
    """Return the number of private steps K: as configured, or default_steps, capped at the task's limit."""
    steps = settings_of(config, PushSumSettings).steps
    if steps is not None:
        return steps
    return default_steps(config) if config.task.steps is None else min(default_steps(config), config.task.steps)


def default_steps(config: AgentConfig) -> int:
    """Return the default number of private steps K, an even number from 48 to 144.

    With K steps, noise limits the step size to a value proportional to 1/K, so taking more steps gains nothing. If
    devices have many records relative to the model's size, however, the maximum step size limits the steps instead, and
    taking more of them gains one to two points of accuracy. K is therefore the number of steps at which both limits are
    equal. The calculation assumes the default budget, so K is the same for all devices in a fleet, even if their
    budgets differ.
    """
    learner, data = settings_of(config, PushSumSettings), config.data
    if (
        learner.mixing != "contributions"
        or learner.chosen_model != "softmax"
        or not derives_step_size_from_noise(config)
    ):
        return STEPS
    if config.follows or data.classes == 1 or learner.algorithm.noiseless:
        return STEPS
    size = width(data.transform, data.features) * data.classes
    noise_limit = (
        CONTRIBUTIONS_NOISE_DISTANCE
        * data.expected_records
        * clipped_sum_mu(*DEFAULT_BUDGET, config.neighbouring)
        / (math.sqrt(size) * clip_norm(config))
    )
    half_steps = round(min(noise_limit / (MAX_CONTRIBUTIONS_STEP_FACTOR * learner.default_rate), _MAX_STEPS) / 2)
    return max(STEPS, 2 * half_steps)


def max_steps(config: AgentConfig) -> int:
    """Return the maximum number of private steps of any device in a fleet, plus one for each window of a live feed."""
    steps = step_count(config) if config.task.steps is None else config.task.steps
    if config.followed_days is None or config.unit == "device":
        return steps
    first, last = config.followed_days
    return steps + last - first + 1


def derives_step_size_from_noise(config: AgentConfig) -> bool:
    """Return whether γ is derived from the noise: no step size is configured, and every step uses all records."""
    learner = settings_of(config, PushSumSettings)
    return learner.step_size is None and learner.sampling != "poisson" and config.unit == "record"


def clip_norm(config: AgentConfig) -> float:
    """Return C, or C_0 if the threshold changes; see PushSumSettings.clip_norm."""
    return settings_of(config, PushSumSettings).clip_norm
