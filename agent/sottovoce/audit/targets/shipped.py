"""Learners as they ship: all that is not said in `_CONFIG` is what a device has whose owner said nothing about it."""

import math
from typing import Any, cast

from sottovoce.algorithms.family import budget_of, family_of, kernel_of
from sottovoce.algorithms.push_sum.algorithm import schedule_of as push_sum_schedule
from sottovoce.algorithms.push_sum.public.thresholds import Thresholds
from sottovoce.algorithms.rounds.algorithm import questions
from sottovoce.algorithms.shared_model.algorithm import schedule_of
from sottovoce.audit.subject import Subject, Watch
from sottovoce.audit.targets import learners, rounds, shared_model
from sottovoce.audit.targets.means import Means
from sottovoce.audit.targets.normalised import NormalisedSums
from sottovoce.audit.targets.records import PublishedRecords
from sottovoce.audit.targets.sums import GaussianSums
from sottovoce.audit.targets.walks import VisitSums
from sottovoce.audit.wiretap import PEERS
from sottovoce.config import LEARNERS, AgentConfig, checked
from sottovoce.errors import InternalError
from sottovoce.kernels import Softmax
from sottovoce.vault import GradientTerms, MeanTerms, NormalisedTerms, RecordTerms, WalkTerms

_CONFIG: dict[str, dict[str, Any]] = {
    "push_sum": {"features": 256, "classes": 2},
    "rounds": {"features": 256, "classes": 2},
    "shared_model": {"features": 256, "classes": 2},
    "golf": {"features": 8, "classes": 3},
    "gradient_walk": {"features": 256, "classes": 3},
    "average": {"features": 8, "classes": 2},
}
"""Data that canaries can be told apart in, by family."""
_RECORDS = 256.0


def shipped(name: str, fidelity: str, epsilon: float, delta: float) -> Subject:
    """A learner's shipped default for this budget; one that adds no noise, for none.

    Raises:
        PrivacyError: the budget allows no such release.
    """
    config = _config(name, fidelity, epsilon, delta)
    family, budget = family_of(config), budget_of(config)
    match family.terms:
        case GradientTerms() as terms:
            kernel = cast(Softmax, family.kernel)
            return GaussianSums(terms, budget, kernel, _watch(config, terms, kernel.size))
        case NormalisedTerms(sums, rule):
            kernel = cast(Softmax, family.kernel)
            return NormalisedSums(
                sums, budget, kernel, learners.push_sum(sums, kernel.size, _thresholds(config, kernel.size)), rule
            )
        case RecordTerms() as terms:
            return PublishedRecords(terms.scheme, budget, learners.golf(terms.scheme))
        case WalkTerms() as terms:
            watch = learners.gradient_walk(terms.features, terms.classes)
            return VisitSums(terms.law, budget, watch, terms.features)
        case MeanTerms() as terms:
            return Means(terms, budget, learners.average(terms.features))
    raise InternalError(f"no audit of what learner `{name}` asks of a vault: report this")


def _config(name: str, fidelity: str, epsilon: float, delta: float) -> AgentConfig:
    known = LEARNERS[name]
    learner: dict[str, Any] = {"name": name, "fidelity": fidelity}
    if name == "pdsl":
        learner["shapley"] = "cosine"  # the others need public records; a weight is nothing that a vault releases
    settings = {
        "agent": {"state": "."},
        "data": {"source": "digits", "expected_records": _RECORDS, **_CONFIG[known.family]},
        "learner": learner,
        "privacy": {"epsilon": math.inf if known.noiseless else epsilon, "delta": delta},
        "membership": {"sampling": "static"},
        "transport": {"peers": [{"id": 32 * ear[-1], "address": f"{ear}.invalid:1"} for ear in PEERS]},
    }
    return checked(settings, "audit")


def _watch(config: AgentConfig, terms: GradientTerms, size: int) -> Watch:
    """What undoes a learner of sums of gradients."""
    match LEARNERS[config.learner.name].family:
        case "push_sum":
            return learners.push_sum(terms, size)
        case "rounds":
            return rounds.watch(terms, size, questions(config))
        case _:
            return shared_model.watch(schedule_of(config, kernel_of(config)), size)


def _thresholds(config: AgentConfig, size: int) -> Thresholds:
    schedule = push_sum_schedule(config, size)
    if schedule.thresholds is None:
        raise InternalError("sums in units of a threshold need one: report this")
    return schedule.thresholds
