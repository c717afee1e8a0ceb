"""The mean of one bounded vector a device, by push-sum."""

from typing import TYPE_CHECKING

from sottovoce.algorithms.average.settings import AverageSettings
from sottovoce.algorithms.family import Family, Kept, Made, budget_of, settings_of
from sottovoce.config import AgentConfig
from sottovoce.data import width
from sottovoce.kernels.mean import Mean
from sottovoce.vault.rooms.means import MeanTerms

if TYPE_CHECKING:
    from sottovoce.learners import Provenance


def family(config: AgentConfig) -> Family:
    """Averaging: average.

    Push-sum with one step of one vector: the mean is where Σ ½‖z - v‖² is least, and one step of length 1 against its
    gradient at 0, which is -v, puts v into the mass.
    """
    learner, data = settings_of(config, AverageSettings), config.data
    model = Mean(width(data.transform, data.features))

    def made(owner: str, provenance: "Provenance", kept: Kept) -> Made:
        from sottovoce.algorithms.push_sum.public.machine import PushSum
        from sottovoce.algorithms.push_sum.state_codec import PushSumCodec
        from sottovoce.algorithms.steps.public.descent import Schedule

        del owner, provenance, kept  # mass has no author
        schedule = Schedule(
            learner=learner.name,
            size=model.size,
            period=learner.period,
            steps=1,
            step_size=-1.0,
            step_decay=0.0,
            expected_records=1.0,
            fanout=learner.fanout,
            asks="mean",
            share_bits=learner.share_bits,
        )
        push_sum = PushSum(schedule)
        return push_sum, PushSumCodec(push_sum)

    terms = MeanTerms(learner.name, model.size, learner.clip)
    facts = {"noise_deviation": terms.deviation(budget_of(config)), "clip": terms.clip}
    return Family(model, None, terms, made, facts=facts)
