"""From a configuration to the parts that differ from learner to learner, in real agents and simulated ones.

Codecs are imported where a learner is made: a separate vault, which makes none, has no use for the wire's code.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from sottovoce.config import AgentConfig
from sottovoce.data import Bounds, Records, TransformName, apply, width
from sottovoce.kernels import RULES, Kernel, Model, OneVsAll, Softmax, copies, ridge
from sottovoce.learners import (
    Golf,
    GolfSchedule,
    GradientWalk,
    GradientWalkSchedule,
    Learner,
    Provenance,
    PublishedRecord,
    PushSum,
    Schedule,
)
from sottovoce.perturbation import Scheme, best, best_for_ridge, scheme, visit_epsilons
from sottovoce.vault import RecordTerms, Scaling, Terms, WalkTerms

if TYPE_CHECKING:
    from sottovoce.agent.states import StateCodec

Kept = tuple[PublishedRecord, ...]
Made: TypeAlias = "tuple[Learner[Any], StateCodec]"


@dataclass(frozen=True, slots=True)
class Family:
    """What a learner brings along.

    Attributes:
        model: the public one: its size, its predictions, its loss.
        kernel: what the vault differentiates, if it does.
        terms: what is asked of the vault.
        learner: makes the state machine and its codec, for (node id, provenance, published records kept).
        keeps_records: whether published records are to be kept on the disk.
    """

    model: Model
    kernel: Kernel | None
    terms: Terms | RecordTerms | WalkTerms
    learner: Callable[[str, Provenance, Kept], Made]
    keeps_records: bool


def family_of(config: AgentConfig) -> Family:
    """The parts for a configuration.

    Raises:
        PrivacyError: the budget allows no such release.
    """
    match config.learner.name:
        case "golf":
            return _golf(config)
        case "gradient-walk":
            return _gradient_walk(config)
        case _:
            return _push_sum(config)


def records_of(raw: Records, transform: TransformName, bounds: Bounds | None) -> Records:
    """Records as the vault sees them: clamped to their declared bounds, each transformed by itself."""
    return replace(raw, features=apply(transform, raw.features, bounds))


def scheme_of(config: AgentConfig) -> Scheme:
    """How records are perturbed: by the public rule, by choice, or to the letter."""
    learner, data = config.learner, config.data
    features, epsilon = width(data.transform, data.features), config.privacy.epsilon
    if epsilon == float("inf"):
        return scheme("exact", features, data.classes, None)
    if learner.fidelity == "paper":
        return scheme("laplace-copies", features, data.classes, epsilon)
    if learner.perturbation == "best":
        choose = best_for_ridge if learner.chosen_model == "ridge" else best
        return choose(features, data.classes, epsilon)
    return scheme(learner.perturbation, features, data.classes, epsilon)


def schedule_of(config: AgentConfig, size: int) -> Schedule:
    """The public schedule of a push-sum learner whose model has `size` parameters."""
    learner = config.learner
    return Schedule(
        learner=learner.name,
        size=size,
        period=learner.period,
        steps=learner.steps,
        step_size=learner.step_size,
        step_decay=learner.step_decay,
        expected_records=config.data.expected_records,
        fanout=learner.fanout,
    )


def _golf(config: AgentConfig) -> Family:
    perturbed, learner = scheme_of(config), config.learner
    rule = RULES.get(learner.chosen_model)
    fit = None if rule else ridge
    schedule = GolfSchedule(perturbed, learner.period, learner.batch, learner.capacity)

    def made(owner: str, provenance: Provenance, kept: Kept) -> Made:
        from sottovoce.agent.states import GolfCodec

        golf = Golf(schedule, rule, fit, owner, provenance, kept)
        return golf, GolfCodec(golf)

    model = OneVsAll(perturbed.features, perturbed.classes)
    return Family(model, None, RecordTerms(learner.name, perturbed, _scaling(config)), made, keeps_records=True)


def _gradient_walk(config: AgentConfig) -> Family:
    learner, data = config.learner, config.data
    model = OneVsAll(width(data.transform, data.features), data.classes)
    epsilons = visit_epsilons(learner.budget, learner.visits, config.privacy.epsilon)
    schedule = GradientWalkSchedule(
        learner=learner.name,
        copies=copies(data.classes),
        features=model.features,
        period=learner.period,
        visits=len(epsilons),
        begins=learner.begins_walk,
    )

    def made(owner: str, provenance: Provenance, kept: Kept) -> Made:
        from sottovoce.agent.states import GradientWalkCodec

        del owner, provenance, kept  # a walk has no author
        walk = GradientWalk(schedule)
        return walk, GradientWalkCodec(walk)

    terms = WalkTerms(
        learner=learner.name,
        model=learner.chosen_model,
        features=model.features,
        classes=model.classes,
        epsilons=epsilons,
        law="copies" if learner.fidelity == "paper" else "joint",
        scaling=_scaling(config),
    )
    return Family(model, None, terms, made, keeps_records=False)


def _scaling(config: AgentConfig) -> Scaling:
    return "declared" if config.data.ranges == "declared" else "training-min-max"


def _push_sum(config: AgentConfig) -> Family:
    learner, data = config.learner, config.data
    kernel = Softmax(width(data.transform, data.features), data.classes)
    schedule = schedule_of(config, kernel.size)

    def made(owner: str, provenance: Provenance, kept: Kept) -> Made:
        from sottovoce.agent.states import PushSumCodec

        del owner, provenance, kept  # mass has no author
        push_sum = PushSum(schedule)
        return push_sum, PushSumCodec(push_sum)

    terms = Terms(learner=learner.name, releases=learner.steps, clip=learner.clip, windows=data.windows)
    return Family(kernel, kernel, terms, made, keeps_records=False)
