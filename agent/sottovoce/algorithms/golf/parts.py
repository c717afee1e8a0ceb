"""Gossip learning on perturbed records."""

import math
from typing import TYPE_CHECKING

from sottovoce.algorithms.family import Family, Kept, Made, scaling_of, settings_of
from sottovoce.algorithms.golf.settings import GolfSettings
from sottovoce.config import AgentConfig
from sottovoce.data import width
from sottovoce.kernels.gossip_rules import RULES
from sottovoce.kernels.linear import OneVsAll
from sottovoce.kernels.ridge import ridge
from sottovoce.perturbation import Scheme, best, best_for_ridge, scheme
from sottovoce.vault.terms.plugin_scheme import scheme as chosen
from sottovoce.vault.terms.records import RecordTerms

if TYPE_CHECKING:
    from sottovoce.learners import Provenance


def family(config: AgentConfig) -> Family:
    """Published records: golf."""
    perturbed, learner = scheme_of(config), settings_of(config, GolfSettings)
    rule = RULES.get(learner.chosen_model)
    fit = None if rule else ridge

    def made(owner: str, provenance: "Provenance", kept: Kept) -> Made:
        from sottovoce.algorithms.golf.public.machine import Golf, GolfSchedule
        from sottovoce.algorithms.golf.state_codec import GolfCodec

        each = math.ceil(config.data.expected_records)
        schedule = GolfSchedule(perturbed, learner.period, learner.batch, learner.capacity, each)
        golf = Golf(schedule, rule, fit, owner, provenance, kept)
        return golf, GolfCodec(golf)

    model = OneVsAll(perturbed.features, perturbed.classes)
    return Family(model, None, RecordTerms(learner.name, perturbed, scaling_of(config)), made, keeps_records=True)


def scheme_of(config: AgentConfig) -> Scheme:
    """Perturbation of records: by the public rule, by choice, or to the letter."""
    learner, data = settings_of(config, GolfSettings), config.data
    features, epsilon = width(data.transform, data.features), config.privacy.epsilon
    if epsilon == float("inf"):
        return scheme("exact", features, data.classes, None)
    if learner.fidelity == "paper":
        return scheme("laplace-copies", features, data.classes, epsilon)
    if learner.perturbation == "best":
        choose = best_for_ridge if learner.chosen_model == "ridge" else best
        return choose(features, data.classes, epsilon)
    return chosen(learner.perturbation, features, data.classes, epsilon)
