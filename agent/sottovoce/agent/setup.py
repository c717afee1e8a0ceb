"""From a configuration to the parts of an agent that both the real one and a simulated one are made of."""

from sottovoce.config import AgentConfig
from sottovoce.data import Bounds, Records, TransformName, apply, width
from sottovoce.kernels import Softmax
from sottovoce.learners import Schedule
from sottovoce.vault import Terms


def kernel_of(features: int, classes: int, transform: TransformName) -> Softmax:
    """The model over transformed features."""
    return Softmax(width(transform, features), classes)


def records_of(raw: Records, transform: TransformName, bounds: Bounds | None) -> Records:
    """Records as the vault sees them: clamped to their declared bounds, each transformed by itself."""
    return Records(apply(transform, raw.features, bounds), raw.labels)


def schedule_of(config: AgentConfig, size: int, peers: tuple[str, ...]) -> Schedule:
    """The learner's public schedule."""
    learner = config.learner
    return Schedule(
        learner=learner.name,
        size=size,
        peers=peers,
        period=learner.period,
        steps=learner.steps,
        step_size=learner.step_size,
        step_decay=learner.step_decay,
        expected_records=config.data.expected_records,
        fanout=learner.fanout,
    )


def terms_of(config: AgentConfig) -> Terms:
    """What the learner asks of its vault."""
    return Terms(learner=config.learner.name, releases=config.learner.steps, clip=config.learner.clip)
