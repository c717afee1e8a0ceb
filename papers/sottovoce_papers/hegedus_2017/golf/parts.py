"""Parts of `golf`: gossip learning on perturbed records."""

import math
from typing import TYPE_CHECKING

from sottovoce.plugin import (
    UPDATE_RULES,
    AgentConfig,
    ConfigError,
    Family,
    LearnerAndCodec,
    OneVsAll,
    RecordTerms,
    Scheme,
    StoredRecords,
    feature_scaling,
    named_scheme,
    ridge,
    scheme,
    select_scheme,
    select_scheme_for_ridge,
    settings_of,
    width,
)

from sottovoce_papers.hegedus_2017.golf.settings import GolfSettings

if TYPE_CHECKING:
    from sottovoce.plugin import Provenance

SHARE_BITS = 24
"""Bits per share of a sum. On this fine grid, models differ by under 10^-5 of their largest value after 40 cycles."""


def build_parts(config: AgentConfig) -> Family:
    """Return the parts of `golf`, mixed by sending published records or by push-sum."""
    perturbed, learner = build_scheme(config), settings_of(config, GolfSettings)
    rule = UPDATE_RULES.get(learner.chosen_model)
    fit = None if rule else ridge

    def make_learner(owner: str, provenance: "Provenance", stored_records: StoredRecords) -> LearnerAndCodec:
        from sottovoce_papers.hegedus_2017.golf.codec import GolfCodec
        from sottovoce_papers.hegedus_2017.golf.public.machine import Golf, GolfSchedule

        max_records = math.ceil(config.data.expected_records)
        schedule = GolfSchedule(perturbed, learner.period, learner.batch, learner.capacity, max_records)
        golf = Golf(schedule, rule, fit, owner, provenance, stored_records)
        return golf, GolfCodec(golf)

    model = OneVsAll(perturbed.features, perturbed.classes)
    terms = RecordTerms(learner.name, perturbed, feature_scaling(config))
    if learner.mixing == "push-sum":
        return _build_push_sum_parts(config, learner, model, terms)
    return Family(model, None, terms, make_learner, keeps_records=True)


def _build_push_sum_parts(config: AgentConfig, learner: GolfSettings, model: OneVsAll, terms: RecordTerms) -> Family:
    max_records, perturbed = math.ceil(config.data.expected_records), terms.scheme

    def make_learner(owner: str, provenance: "Provenance", stored_records: StoredRecords) -> LearnerAndCodec:
        from sottovoce.plugin import PushSumCodec, Schedule

        from sottovoce_papers.hegedus_2017.golf.public.moments import PackedMoments
        from sottovoce_papers.hegedus_2017.golf.public.moments_machine import GolfMoments

        # push-sum mass is anonymous, and no records are published
        moments = PackedMoments(perturbed, max_records)
        schedule = Schedule(
            learner=learner.name,
            size=moments.size,
            period=learner.period,
            steps=max_records,
            step_size=1.0,
            step_decay=0.0,
            expected_records=1.0,
            fanout=1,
            share_bits=SHARE_BITS,
        )
        golf = GolfMoments(schedule, moments)
        return golf, PushSumCodec(golf)

    def check() -> None:
        from sottovoce.plugin import MAX_PARAMETERS

        from sottovoce_papers.hegedus_2017.golf.public.moments import PackedMoments

        size = PackedMoments(perturbed, max_records).size
        if size > MAX_PARAMETERS:
            raise ConfigError(
                f"learner.mixing: the sums over records of {perturbed.features} features have {size} values, but a "
                f"message can contain only {MAX_PARAMETERS}: set a data.transform with fewer columns"
            )

    return Family(model, None, terms, make_learner, check=check)


def build_scheme(config: AgentConfig) -> Scheme:
    """Return the perturbation scheme: exactly as in the paper, as configured, or chosen by the public rule."""
    learner, data = settings_of(config, GolfSettings), config.data
    features, epsilon = width(data.transform, data.features), config.privacy.epsilon
    if epsilon == float("inf"):
        return scheme("exact", features, data.classes, None)
    if learner.fidelity == "paper":
        return scheme("laplace-copies", features, data.classes, epsilon)
    if learner.perturbation == "best":
        choose = select_scheme_for_ridge if learner.chosen_model == "ridge" else select_scheme
        return choose(features, data.classes, epsilon)
    return named_scheme(learner.perturbation, features, data.classes, epsilon)
