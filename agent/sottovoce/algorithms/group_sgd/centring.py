"""Whether the members of cells centre their records by a private mean; derived from public settings alone."""

from sottovoce.algorithms.centring import bias_of, find_obstacle
from sottovoce.algorithms.family import settings_of
from sottovoce.algorithms.group_sgd.settings import GroupSgdSettings
from sottovoce.config import AgentConfig
from sottovoce.data import width
from sottovoce.errors import ConfigError
from sottovoce.privacy.terms.gradients import RecordSum


def record_sum(config: AgentConfig) -> RecordSum | None:
    """Return the sum of records that precedes the gradients, or None if records are not centred, the default.

    Raises:
        ConfigError: if `learner.centre` is `private`, but the other settings do not allow it.
    """
    if settings_of(config, GroupSgdSettings).centre != "private":
        return None
    obstacle, bias = find_obstacle(config), bias_of(config.data.transform)
    if obstacle is not None or bias is None:
        raise ConfigError(f'learner.centre: {obstacle}; set centre = "none"')
    return RecordSum(width(config.data.transform, config.data.features), bias)


def describe_centre(config: AgentConfig) -> str:
    """Return whether records are centred by a private mean, and at what cost."""
    records, learner = record_sum(config), settings_of(config, GroupSgdSettings)
    if records is None:
        return 'records are not centred; this learner centres them with learner.centre = "private" only'
    return (
        f"records are centred by the cell's mean: the first secure sum is over the records, {records.columns} numbers, "
        f"and costs as much as each of the {learner.steps} sums of gradients"
    )
