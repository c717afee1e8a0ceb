"""Push-sum SGD."""

from sottovoce.agent.family import Family, Kept, Made
from sottovoce.config import AgentConfig
from sottovoce.data import width
from sottovoce.kernels import Softmax
from sottovoce.learners import Provenance, PushSum, Schedule
from sottovoce.vault import GradientTerms


def family(config: AgentConfig) -> Family:
    """Push-sum SGD: push-sum, clipd2p."""
    learner, data = config.learner, config.data
    kernel = Softmax(width(data.transform, data.features), data.classes)
    schedule = schedule_of(config, kernel.size)

    def made(owner: str, provenance: Provenance, kept: Kept) -> Made:
        from sottovoce.agent.states.push_sum import PushSumCodec

        del owner, provenance, kept  # mass has no author
        push_sum = PushSum(schedule)
        return push_sum, PushSumCodec(push_sum)

    terms = GradientTerms(learner=learner.name, releases=learner.steps, clip=learner.threshold, windows=data.windows)
    return Family(kernel, kernel, terms, made)


def schedule_of(config: AgentConfig, size: int) -> Schedule:
    """The public schedule of a push-sum learner whose model has `size` parameters."""
    learner = config.learner
    return Schedule(
        learner=learner.name,
        size=size,
        period=learner.period,
        steps=learner.steps,
        step_size=learner.rate,
        step_decay=learner.step_decay,
        expected_records=config.data.expected_records,
        fanout=learner.fanout,
    )
