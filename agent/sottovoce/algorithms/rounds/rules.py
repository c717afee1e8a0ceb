"""Rules for the algorithms in rounds, built from a configuration."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sottovoce.algorithms.family import prepare_records, settings_of
from sottovoce.algorithms.rounds.settings import (
    CrossSettings,
    DpCgaSettings,
    DpDpsgdSettings,
    DpNetFleetSettings,
    MuffliatoSettings,
    PdslSettings,
    RoundsSettings,
)
from sottovoce.config import AgentConfig
from sottovoce.data import Declaration, Records, load, uniform_bounds
from sottovoce.errors import ConfigError
from sottovoce.kernels import Kernel

if TYPE_CHECKING:  # the vault process only needs the number of questions, and loads no learner
    from sottovoce.algorithms.rounds.public import Algorithm, GradientWeighting


def _one_question(config: AgentConfig) -> int:
    return 1


def _do_nothing(config: AgentConfig) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Rule:
    """The factory, gradient limit and configuration check for an algorithm in rounds.

    Attributes:
        create: creates the algorithm for a round from the configuration, the kernel, and the public records to score
            models on; None selects the records in data.public.
        questions: returns the maximum number of gradients that a device may be asked for in one round.
        check: raises ConfigError if the algorithm cannot run with the configuration.
    """

    create: "Callable[[AgentConfig, Kernel, Records | None], Algorithm]"
    questions: Callable[[AgentConfig], int] = _one_question
    check: Callable[[AgentConfig], None] = _do_nothing


def _answers_per_round(config: AgentConfig) -> int:
    answers = settings_of(config, CrossSettings).answers_per_round
    return 1 + len(config.transport.peers) if answers == "all" else answers


def _pdsl(config: AgentConfig, kernel: Kernel, public: Records | None) -> "Algorithm":
    from sottovoce.algorithms.rounds.public import AnswerRotation, Pdsl

    momentum = settings_of(config, PdslSettings).momentum
    return Pdsl(AnswerRotation(_answers_per_round(config)), _weighing(config, kernel, public), momentum)


def _check_pdsl(config: AgentConfig) -> None:
    """Check that the numbers of neighbours and answers are small enough for exact Shapley values."""
    from sottovoce.kernels.decentralised.shapley import MAX_EXACT_PLAYERS

    learner = settings_of(config, PdslSettings)
    players = max(_answers_per_round(config), 1 + len(config.transport.peers))
    if learner.shapley == "exact" and players > MAX_EXACT_PLAYERS:
        raise ConfigError(
            f"learner.shapley: exact Shapley values support at most {MAX_EXACT_PLAYERS - 1} neighbours and "
            f"{MAX_EXACT_PLAYERS - 1} answers: choose monte-carlo or cosine, or a sparser graph"
        )


def _dp_cga(config: AgentConfig, kernel: Kernel, public: Records | None) -> "Algorithm":
    from sottovoce.algorithms.rounds.public import AnswerRotation, DpCga

    return DpCga(AnswerRotation(_answers_per_round(config)), settings_of(config, DpCgaSettings).momentum)


def _dp_dpsgd(config: AgentConfig, kernel: Kernel, public: Records | None) -> "Algorithm":
    from sottovoce.algorithms.rounds.public import DpDpsgd

    return DpDpsgd()


def _dp_net_fleet(config: AgentConfig, kernel: Kernel, public: Records | None) -> "Algorithm":
    from sottovoce.algorithms.rounds.public import DpNetFleet

    return DpNetFleet(settings_of(config, DpNetFleetSettings).local_steps)


def _muffliato(config: AgentConfig, kernel: Kernel, public: Records | None) -> "Algorithm":
    from sottovoce.algorithms.rounds.public import Muffliato
    from sottovoce.kernels.decentralised import mixing

    learner = settings_of(config, MuffliatoSettings)
    steps, gap = learner.gossip_steps, learner.spectral_gap
    accelerated = learner.chebyshev and gap is not None
    coefficients = (
        mixing.accelerated_coefficients(gap or 1.0, steps) if accelerated else mixing.plain_coefficients(steps)
    )
    return Muffliato(tuple(coefficients.tolist()))


RULES: dict[type[RoundsSettings], Rule] = {
    PdslSettings: Rule(_pdsl, _answers_per_round, _check_pdsl),
    DpCgaSettings: Rule(_dp_cga, _answers_per_round),
    DpDpsgdSettings: Rule(_dp_dpsgd),
    DpNetFleetSettings: Rule(_dp_net_fleet, lambda config: settings_of(config, DpNetFleetSettings).local_steps),
    MuffliatoSettings: Rule(_muffliato),
}


def _weighing(config: AgentConfig, kernel: Kernel, public: Records | None) -> "GradientWeighting":
    from sottovoce.algorithms.rounds.public import GradientWeighting
    from sottovoce.kernels.decentralised.shapley import AccuracyGame

    learner = settings_of(config, PdslSettings)
    if learner.scores is None:
        return GradientWeighting(learner.shapley)
    records = _load_public_records(config) if public is None else public
    return GradientWeighting(
        learner.shapley, AccuracyGame(kernel, records.features, records.labels), learner.permutations
    )


def _load_public_records(config: AgentConfig) -> Records:
    """Return the public records in data.public, prepared in the same way as the vault's own records."""
    data = config.data
    source = load(data.public or "", Declaration(data.classes, data.features, data.columns, data.labels))
    bounds = source.bounds if data.bounds is None else uniform_bounds(*data.bounds, data.features, "data.bounds")
    return replace(prepare_records(source.records, data.transform, bounds), windows=None)
