"""Synchronous rounds between neighbours: pdsl, dp-dpsgd, dp-cga, muffliato, dp-net-fleet."""

from dataclasses import replace

from sottovoce.algorithms.family import Family, Kept, Made, kernel_of, records_of
from sottovoce.algorithms.rounds.public import (
    Algorithm,
    DpCga,
    DpDpsgd,
    DpNetFleet,
    Muffliato,
    Pdsl,
    Rationing,
    Rounds,
    RoundsSchedule,
    Weighing,
)
from sottovoce.algorithms.rounds.published import published_terms
from sottovoce.config import AgentConfig
from sottovoce.data import Records, checked, load, uniform_bounds
from sottovoce.errors import ConfigError, InternalError
from sottovoce.kernels import Kernel
from sottovoce.kernels.decentralised import chebyshev
from sottovoce.kernels.decentralised.coalitions import AccuracyGame
from sottovoce.kernels.decentralised.shapley import EXACT_AT_MOST
from sottovoce.learners import Provenance
from sottovoce.vault import GradientTerms, Terms

INITIAL_SEED = 0
"""Of the model that all devices of a fleet begin with, which is public."""

_SCORED = ("exact", "monte-carlo")


def family(config: AgentConfig) -> Family:
    """Learners in rounds; records by which models are scored are read where a learner is made."""
    return _family(config, None)


def scored(config: AgentConfig, public: Records) -> Family:
    """The same with these public records, transformed, in place of those that data.public names."""
    return _family(config, public)


def _family(config: AgentConfig, public: Records | None) -> Family:
    kernel = kernel_of(config)
    schedule = schedule_of(config, kernel.size)
    start = kernel.initial(INITIAL_SEED)

    def made(owner: str, provenance: Provenance, kept: Kept) -> Made:
        from sottovoce.algorithms.rounds.state_codec import RoundsCodec

        del owner, provenance, kept  # rounds have no author
        check(config)
        rounds = Rounds(schedule, _algorithm(config, kernel, public), start)
        return rounds, RoundsCodec(rounds)

    return Family(kernel, kernel, _terms(config), made)


def schedule_of(config: AgentConfig, size: int) -> RoundsSchedule:
    """The public schedule of a learner in rounds whose model has `size` parameters. Papers keep the step size."""
    learner = config.learner
    return RoundsSchedule(
        learner=learner.name,
        size=size,
        period=learner.period,
        steps=learner.steps,
        step_size=learner.rate,
        step_decay=0.0 if learner.fidelity == "paper" else learner.decay,
        batch=config.data.expected_records if learner.sampling == "full" else _batch(config)[0],
        deadline=learner.deadline,
    )


def questions(config: AgentConfig) -> int:
    """Gradients that a device may be asked for in one round."""
    learner = config.learner
    match learner.name:
        case "pdsl" | "dp-cga":
            return learner.answers or 1 + len(config.transport.peers)
        case "dp-net-fleet":
            return learner.local_steps
        case _:
            return 1


def check(config: AgentConfig) -> None:
    """Refuse what a learner in rounds cannot go on.

    Raises:
        ConfigError: its neighbours are not fixed, too many for exact values, or models cannot be scored.
    """
    learner = config.learner
    if config.membership.sampling != "static":
        raise ConfigError(
            f"membership.sampling: learner {learner.name} has the same neighbours in every round: set it to "
            '"static" and list each device under the other\'s transport.peers'
        )
    if learner.name == "pdsl" and learner.shapley in _SCORED and config.data.public is None:
        raise ConfigError(
            f"data.public: learner.shapley = {learner.shapley} scores models on public labelled records: name them, "
            "or set learner.shapley=cosine, which needs none"
        )
    players = max(questions(config), 1 + len(config.transport.peers))
    if learner.name == "pdsl" and learner.shapley == "exact" and players > EXACT_AT_MOST:
        raise ConfigError(
            f"learner.shapley: exact values are for at most {EXACT_AT_MOST - 1} neighbours, and as many answers: "
            "choose monte-carlo or cosine, or a sparser graph"
        )


def _batch(config: AgentConfig) -> tuple[int, int]:
    """Numerator and denominator of the rate at which records are drawn."""
    of = max(1, round(config.data.expected_records))
    return min(config.learner.batch_size, of), of


def _terms(config: AgentConfig) -> Terms:
    learner, (batch, of) = config.learner, _batch(config)
    if learner.fidelity == "paper":
        return published_terms(config, questions(config), batch)
    return GradientTerms(
        learner=learner.name,
        releases=max(1, learner.steps * questions(config)),
        clip=learner.threshold,
        sampling=learner.sampling or "poisson",
        batch=batch,
        of=of,
    )


def _algorithm(config: AgentConfig, kernel: Kernel, public: Records | None) -> Algorithm:
    learner = config.learner
    match learner.name:
        case "pdsl":
            return Pdsl(Rationing(questions(config)), _weighing(config, kernel, public), learner.momentum)
        case "dp-cga":
            return DpCga(Rationing(questions(config)), learner.momentum)
        case "dp-dpsgd":
            return DpDpsgd()
        case "dp-net-fleet":
            return DpNetFleet(learner.local_steps)
        case "muffliato":
            steps, gap = learner.gossip_steps, learner.spectral_gap
            accelerated = learner.chebyshev and gap is not None
            coefficients = chebyshev.accelerated(gap or 1.0, steps) if accelerated else chebyshev.plain(steps)
            return Muffliato(tuple(coefficients.tolist()))
        case _:
            raise InternalError(f"no algorithm of rounds is called {learner.name}: report this")


def _weighing(config: AgentConfig, kernel: Kernel, public: Records | None) -> Weighing:
    learner = config.learner
    if learner.shapley not in _SCORED:
        return Weighing(learner.shapley)
    records = _public(config) if public is None else public
    return Weighing(learner.shapley, AccuracyGame(kernel, records.features, records.labels), learner.permutations)


def _public(config: AgentConfig) -> Records:
    """The public records that data.public names, as the vault would see its own."""
    data, spec = config.data, config.data.public or ""
    found = load(spec)
    raw = checked(
        found.records.features, found.records.labels, features_expected=data.features, classes=data.classes, origin=spec
    )
    bounds = found.bounds if data.bounds is None else uniform_bounds(*data.bounds, data.features, "data.bounds")
    return replace(records_of(raw, data.transform, bounds), windows=None)
