"""Whether a fleet centres its records by a private mean, and what that costs; derived from public settings alone."""

import math

from sottovoce.algorithms.centring import bias_of, find_obstacle
from sottovoce.algorithms.family import settings_of, total_mu
from sottovoce.algorithms.push_sum.settings import ClipD2pSettings, PushSumSettings
from sottovoce.algorithms.push_sum.step_count import DEFAULT_BUDGET
from sottovoce.config import AgentConfig
from sottovoce.data import width
from sottovoce.errors import ConfigError
from sottovoce.privacy.terms.gradients import MEAN_SHARE, RecordSum
from sottovoce.privacy.vault import clipped_sum_mu

_MAX_NOISE = 2.0
"""Length of the noise in one device's mean, as a multiple of a record's, up to which a fleet's mean gains: eight
devices reduce it to 0.7, and shrinking leaves out what remains noise."""

_MAX_NUMBERS = 507_904
"""Numbers in a message: `MAX_PARAMETERS` of the wire, which a vault process does not load."""


def record_sum(config: AgentConfig) -> RecordSum | None:
    """Return the sum of records that precedes the gradients, or None if records are not centred.

    Raises:
        ConfigError: if `learner.centre` is `private`, but the other settings do not allow it.
    """
    learner = settings_of(config, PushSumSettings)
    if not isinstance(learner, ClipD2pSettings) or learner.centre == "none":
        return None
    obstacle = _obstacle(config, learner)
    if obstacle is None and learner.centre is None:
        obstacle = _too_little_signal(config)
    if obstacle is not None and learner.centre == "private":
        raise ConfigError(f'learner.centre: {obstacle}; set centre = "none"')
    bias = bias_of(config.data.transform)
    if obstacle is not None or bias is None:
        return None
    return RecordSum(width(config.data.transform, config.data.features), bias)


def _obstacle(config: AgentConfig, learner: ClipD2pSettings) -> str | None:
    """Return why the records cannot be centred by a private mean; None if they can."""
    if learner.fidelity == "paper":
        return 'the paper has no such release, and fidelity = "paper" follows it'
    if learner.mixing != "contributions":
        return f"mixing = {learner.mixing} has no place for the sums of records, which only contributions carry"
    if learner.sampling != "full":
        return f"sampling = {learner.sampling} is accounted for by another rule than the sum of records"
    if (obstacle := find_obstacle(config)) is not None:
        return obstacle
    numbers = width(config.data.transform, config.data.features) * (config.data.classes + 1)
    return None if numbers <= _MAX_NUMBERS else f"model and sum have {numbers} numbers, and a message {_MAX_NUMBERS}"


def _too_little_signal(config: AgentConfig) -> str | None:
    """Return why a private mean would gain nothing: noise prevails in a device's own mean; None if it does not.

    The rule assumes the default budget, so all devices of a fleet decide alike, even if their budgets differ.
    """
    columns = width(config.data.transform, config.data.features)
    mu = math.sqrt(MEAN_SHARE) * clipped_sum_mu(*DEFAULT_BUDGET, config.neighbouring)
    noise = math.sqrt(columns) / (mu * config.data.expected_records)
    if noise <= _MAX_NOISE:
        return None
    return (
        f"with {config.data.expected_records:g} records of {columns} numbers per device, the noise in a device's mean "
        f"is {noise:.2g} times as long as a record"
    )


def gradient_mu(config: AgentConfig) -> float:
    """Return the total μ of the gradients; ε must be finite."""
    return total_mu(config) * (1.0 if record_sum(config) is None else math.sqrt(1 - MEAN_SHARE))


def sum_noise(config: AgentConfig, records: RecordSum) -> float:
    """Return the standard deviation of the noise on each value of the sum of records, divided by B."""
    if math.isinf(config.privacy.epsilon):
        return 0.0
    return records.clip / (math.sqrt(MEAN_SHARE) * total_mu(config) * config.data.expected_records)


def describe_centre(config: AgentConfig) -> str | None:
    """Return whether records are centred by a private mean, why, and what it costs, as text; None if learner cannot."""
    learner = config.learner
    if not isinstance(learner, ClipD2pSettings):
        return None
    records = record_sum(config)
    if records is None:
        chosen = 'learner.centre is "none"' if learner.centre == "none" else None
        reason = chosen or _obstacle(config, learner) or _too_little_signal(config)
        return f"records are not centred: {reason}"
    return (
        f"records are centred by the fleet's mean: one sum of {records.columns} numbers per device, for "
        f"{MEAN_SHARE:.0%} of μ²; its noise moves each value of the mean record by {sum_noise(config, records):.2g} if "
        "this device is alone, and by less in a fleet"
    )
