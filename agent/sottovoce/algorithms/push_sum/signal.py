"""Signal and noise of a configuration: how far a device's records move a model, and how far its noise does."""

import math
from typing import TYPE_CHECKING

from sottovoce.algorithms.family import SignalAndNoise, settings_of
from sottovoce.algorithms.push_sum.settings import PushSumSettings
from sottovoce.config import AgentConfig
from sottovoce.vault import gaussian_mu

if TYPE_CHECKING:
    from sottovoce.algorithms.steps.public.descent import Schedule


def most_units(config: AgentConfig, schedule: "Schedule") -> float:
    """Privacy units in B records, at most: of windows as many as if each had one; of records that are followed one."""
    return 1.0 if config.unit == "device" or schedule.follows else schedule.expected_records


def signal_and_noise(config: AgentConfig, schedule: "Schedule", clip: float) -> SignalAndNoise | None:
    """Signal and noise of all K steps together; of followed records, of K steps that end after K windows each.

    A step goes γ_t/B times a sum, which C per unit bounds, and its noise is √P C √K/μ long.

    Args:
        config: configuration of an agent.
        schedule: schedule of its learner.
        clip: C.

    Returns:
        None where batches are drawn, or nothing is clipped.
    """
    from sottovoce.algorithms.steps.public.descent import expected, rate

    learner, privacy = settings_of(config, PushSumSettings), config.privacy
    if learner.sampling != "full" or learner.fidelity == "paper" or learner.algorithm.noiseless or learner.steps == 0:
        return None
    windows = schedule.steps if schedule.follows else 1
    paces = [rate(schedule, done, windows) / expected(schedule, windows) for done in range(schedule.steps)]
    signal = clip * most_units(config, schedule) * windows * sum(paces)
    if math.isinf(privacy.epsilon):
        return SignalAndNoise(signal, 0.0)
    length = clip * math.sqrt(schedule.size * schedule.steps) / gaussian_mu(privacy.epsilon, privacy.delta)
    return SignalAndNoise(signal, length * math.sqrt(sum(pace**2 for pace in paces)))
