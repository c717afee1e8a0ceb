"""Compute a configuration's signal and noise: how far a device's records and its noise move the model."""

import math
from typing import TYPE_CHECKING

from sottovoce.algorithms.family import SignalAndNoise, settings_of
from sottovoce.algorithms.push_sum.centring import gradient_mu
from sottovoce.algorithms.push_sum.settings import PushSumSettings
from sottovoce.config import AgentConfig

if TYPE_CHECKING:
    from sottovoce.algorithms.steps.public.descent import Schedule


def max_units(config: AgentConfig, schedule: "Schedule") -> float:
    """Return an upper bound on the number of privacy units in B records; 1 for a device or a live feed."""
    return 1.0 if config.unit == "device" or schedule.follows else schedule.expected_records


def signal_and_noise(config: AgentConfig, schedule: "Schedule", clip: float) -> SignalAndNoise | None:
    """Return the total signal and noise over all K steps. With a live feed, each step uses a sum over K windows.

    A step moves a model with P parameters by γ_t/B times a sum, where γ_t is the step size and B the expected number of
    records. Each unit adds at most C to that sum, and the sum's noise has the norm √P C √K/μ, where μ covers the whole
    budget, except for what a sum of records costs.

    Args:
        config: the agent configuration.
        schedule: the schedule of the agent's learner.
        clip: the clipping threshold C.

    Returns:
        The signal and noise, or None if batches are sampled, nothing is clipped, or there are no steps.
    """
    from sottovoce.algorithms.steps.public.descent import expected_batch, rate

    learner = settings_of(config, PushSumSettings)
    if learner.sampling != "full" or learner.fidelity == "paper" or learner.algorithm.noiseless or schedule.steps == 0:
        return None
    windows = schedule.steps if schedule.follows else 1
    paces = [rate(schedule, step, windows) / expected_batch(schedule, windows) for step in range(schedule.steps)]
    signal = clip * max_units(config, schedule) * windows * sum(paces)
    if math.isinf(config.privacy.epsilon):
        return SignalAndNoise(signal, 0.0)
    length = clip * math.sqrt(schedule.size * schedule.steps) / gradient_mu(config)
    return SignalAndNoise(signal, length * math.sqrt(sum(pace**2 for pace in paces)))
