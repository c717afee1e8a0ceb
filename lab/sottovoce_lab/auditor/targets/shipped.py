"""Subjects for learners as shipped: every setting that `Algorithm.audit` does not list has its default value."""

import math
from typing import Any, cast

from sottovoce.algorithms.assembly import build_family
from sottovoce.algorithms.contributions.public.machine import Mixer
from sottovoce.algorithms.family import Family, required_budget
from sottovoce.algorithms.pairwise.public.machine import Pairwise
from sottovoce.algorithms.push_sum.parts import build_schedule as push_sum_schedule
from sottovoce.algorithms.push_sum.public.machine import PushSum
from sottovoce.algorithms.rounds.public import Rounds
from sottovoce.algorithms.steps.public.descent import Thresholds
from sottovoce.config import AgentConfig, config_from_tables
from sottovoce.errors import InternalError, UsageError
from sottovoce.kernels.softmax import Softmax
from sottovoce.learning.registry import ALGORITHMS
from sottovoce.privacy.terms.cell_gradients import CellGradientTerms
from sottovoce.privacy.terms.gradients import GradientTerms, NormalisedTerms
from sottovoce.privacy.terms.means import MeanTerms
from sottovoce.privacy.terms.records import RecordTerms
from sottovoce_papers.hegedus_2017.gradient_walk.private.terms import WalkTerms
from sottovoce_papers.jin_2023.public.machine import SharedModel

from sottovoce_lab.auditor.subject import Observer, Subject
from sottovoce_lab.auditor.targets import learners, rounds, shared_model
from sottovoce_lab.auditor.targets.cells import CellGradients
from sottovoce_lab.auditor.targets.means import Means
from sottovoce_lab.auditor.targets.normalised import NormalisedSums
from sottovoce_lab.auditor.targets.records import PublishedRecords
from sottovoce_lab.auditor.targets.sums import GaussianSums
from sottovoce_lab.auditor.targets.walks import VisitSums
from sottovoce_lab.auditor.wiretap import PEERS

_RECORDS = 256.0
_OTHERS = "it audits the learners that it knows, and algorithms in rounds; check others with sottovoce.testing"
"""What the audit supports, since a learner of another package may ask and send anything."""


def shipped_learner(name: str, fidelity: str, epsilon: float, delta: float) -> Subject:
    """Return the subject for a learner with its shipped defaults and this budget; ε is infinite for a noiseless one.

    Raises:
        PrivacyError: if the budget does not cover the learner's releases.
        UsageError: if the audit does not know how to play the learner.
    """
    config = _config(name, fidelity, epsilon, delta)
    family, budget = build_family(config), required_budget(config)
    match family.terms:
        case GradientTerms() as terms:
            kernel = cast(Softmax, family.kernel)
            return GaussianSums(terms, budget, kernel, _create_gradient_observer(config, family, terms, kernel.size))
        case NormalisedTerms(sums, rule):
            kernel = cast(Softmax, family.kernel)
            observer = _create_gradient_observer(config, family, sums, kernel.size, _thresholds(config, kernel.size))
            return NormalisedSums(sums, budget, kernel, observer, rule)
        case CellGradientTerms() as terms:
            sums = GradientTerms(terms.learner, terms.sums, terms.clip)
            return CellGradients(sums, budget, cast(Softmax, family.kernel), cell=terms.cell)
        case RecordTerms() as terms:
            return PublishedRecords(terms.scheme, budget, learners.create_golf_observer(terms.scheme))
        case WalkTerms() as terms:
            observer = learners.create_gradient_walk_observer(terms.features, terms.classes)
            return VisitSums(terms.law, budget, observer, terms.features)
        case MeanTerms() as terms:
            return Means(terms, budget, learners.create_average_observer(terms.profile.width))
    raise UsageError(
        f"the audit cannot play the private half of learner {name} ({type(family.terms).__name__}): {_OTHERS}"
    )


def _config(name: str, fidelity: str, epsilon: float, delta: float) -> AgentConfig:
    algorithm = ALGORITHMS[name]
    tables: dict[str, dict[str, Any]] = {
        "data": {"source": "digits", "features": 256, "classes": 2, "expected_records": _RECORDS},
        "learner": {"name": name, "fidelity": fidelity},
    }
    for key, value in algorithm.audit.items():
        table, _, name_in_table = key.partition(".")
        tables[table][name_in_table] = value
    settings = {
        "agent": {"state": "."},
        **tables,
        "privacy": {"epsilon": math.inf if algorithm.noiseless else epsilon, "delta": delta},
        "membership": {"sampling": "static"},
        "transport": {"peers": [{"id": 32 * peer[-1], "address": f"{peer}.invalid:1"} for peer in PEERS]},
    }
    return config_from_tables(settings, "audit")


def _create_gradient_observer(
    config: AgentConfig, family: Family, terms: GradientTerms, size: int, thresholds: Thresholds | None = None
) -> Observer:
    """Return the observer for a learner that requests gradient sums."""
    learner, _ = family.learner("audited", learners.UncheckedProvenance(), ())
    match learner:
        case Mixer():
            return learners.create_contributions_observer(terms, size, thresholds, learner.shared_mean)
        case Pairwise():
            return learners.create_pairwise_observer(terms, size, thresholds)
        case PushSum():
            return learners.create_push_sum_observer(terms, size, thresholds)
        case Rounds():
            return rounds.create_rounds_observer(terms, size, learner.algorithm)
        case SharedModel():
            return shared_model.create_shared_model_observer(learner.schedule, size)
    raise UsageError(
        f"the audit cannot read releases from the messages of learner {config.learner.name} "
        f"({type(learner).__name__}): {_OTHERS}"
    )


def _thresholds(config: AgentConfig, size: int) -> Thresholds:
    schedule = push_sum_schedule(config, size)
    if schedule.thresholds is None:
        raise InternalError("normalised sums were requested without a threshold: this is a bug; please report it")
    return schedule.thresholds
