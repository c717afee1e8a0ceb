"""Parts of `gradient-walk`, which perturbs the gradients along a walk."""

from typing import TYPE_CHECKING

from sottovoce.plugin import (
    AgentConfig,
    Family,
    LearnerAndCodec,
    OneVsAll,
    StoredRecords,
    copy_count,
    feature_scaling,
    settings_of,
    width,
)

from sottovoce_papers.hegedus_2017.gradient_walk.private.terms import WalkTerms
from sottovoce_papers.hegedus_2017.gradient_walk.settings import GradientWalkSettings
from sottovoce_papers.hegedus_2017.gradient_walk.visits import visit_epsilons

if TYPE_CHECKING:
    from sottovoce.plugin import Provenance


def build_parts(config: AgentConfig) -> Family:
    """Return the parts of `gradient-walk`."""
    learner, data = settings_of(config, GradientWalkSettings), config.data
    model = OneVsAll(width(data.transform, data.features), data.classes)
    epsilons = visit_epsilons(learner.budget, learner.visits, config.privacy.epsilon)

    def make_learner(owner: str, provenance: "Provenance", stored_records: StoredRecords) -> LearnerAndCodec:
        from sottovoce_papers.hegedus_2017.gradient_walk.codec import GradientWalkCodec
        from sottovoce_papers.hegedus_2017.gradient_walk.public.machine import GradientWalk, GradientWalkSchedule

        # a walking model is anonymous, and no records are published
        schedule = GradientWalkSchedule(
            learner=learner.name,
            copies=copy_count(data.classes),
            features=model.features,
            period=learner.period,
            visits=len(epsilons),
            begins=learner.begins_walk,
        )
        walk = GradientWalk(schedule)
        return walk, GradientWalkCodec(walk)

    terms = WalkTerms(
        learner=learner.name,
        model=learner.chosen_model,
        features=model.features,
        classes=model.classes,
        epsilons=epsilons,
        law="copies" if learner.fidelity == "paper" else "joint",
        scaling=feature_scaling(config),
    )
    return Family(model, None, terms, make_learner)
