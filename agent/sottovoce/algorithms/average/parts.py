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

    terms = MeanTerms(learner.name, model.size, learner.clip, config.cell)
    if config.cell is not None:
        return _in_cells(config, learner, model, terms)
    return Family(model, None, terms, made, facts=_facts(config, terms))


def _facts(config: AgentConfig, terms: MeanTerms) -> dict[str, float]:
    """Where noise is shared, of the smallest round, in which each device adds most."""
    members = 1 if config.cell is None else config.cell.least
    return {"noise_deviation": terms.deviation(budget_of(config), members), "clip": terms.clip}


def _in_cells(config: AgentConfig, learner: AverageSettings, model: Mean, terms: MeanTerms) -> Family:
    """The same by secure sums."""
    mechanism = terms.cell_mechanism(budget_of(config))

    def made(owner: str, provenance: "Provenance", kept: Kept) -> Made:
        from sottovoce.algorithms.cell.public.course import MeanCourse
        from sottovoce.algorithms.cell.public.machine import Cells
        from sottovoce.algorithms.cell.state_codec import CellCodec

        del kept
        cells = Cells(
            learner.name,
            owner=owner,
            course=MeanCourse(model.size, mechanism.step, mechanism.width),
            period=learner.period,
            cell=mechanism.cell,
            provenance=provenance,
        )
        return cells, CellCodec(cells)

    return Family(model, None, terms, made, facts=_facts(config, terms))
