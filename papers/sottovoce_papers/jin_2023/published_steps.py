"""Public schedule of Jin, He & Dai (2023) exactly as published: the step sizes and the number of turns."""

from sottovoce.plugin import AgentConfig, settings_of

from sottovoce_papers.jin_2023.private.steps import StepSizes
from sottovoce_papers.jin_2023.settings import SharedModelSettings

VISITS = 5
"""Average number of turns in which the paper's sampling with replacement visits each record."""

_STEP = 0.1
_MIN_EXPLORATION = 0.1


def published_step_sizes(config: AgentConfig, slope: float) -> StepSizes:
    """Return η_t as printed: 0.1; with a regulariser 1/(aγt), capped at a configured η; with replacement 1/√t."""
    learner = settings_of(config, SharedModelSettings)
    if learner.name == "with-replacement":
        return StepSizes(learner.step_size or 1.0)
    if not learner.regularisation:
        return StepSizes(learner.step_size or _STEP)
    exploring = _MIN_EXPLORATION / 2
    return StepSizes(learner.step_size, exploring if learner.control[0] == "deep-q" else slope, learner.regularisation)


def visits(records: int, batch: int) -> int:
    """Return the number of turns in which sampling with replacement draws five times as many records as there are."""
    return max(1, -(-VISITS * records // batch))
