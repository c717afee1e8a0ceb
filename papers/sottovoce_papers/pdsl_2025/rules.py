"""Rules for the algorithms in rounds, built from a configuration."""

from dataclasses import replace
from typing import TYPE_CHECKING

from sottovoce.plugin import (
    AgentConfig,
    ConfigError,
    Declaration,
    Kernel,
    Records,
    RoundsSettings,
    Rule,
    load,
    prepare_records,
    settings_of,
    uniform_bounds,
)

from sottovoce_papers.pdsl_2025.settings import (
    CrossSettings,
    DpCgaSettings,
    DpDpsgdSettings,
    DpNetFleetSettings,
    MuffliatoSettings,
    PdslSettings,
)

if TYPE_CHECKING:  # the vault process only needs the number of questions, and loads no learner
    from sottovoce.plugin import RoundAlgorithm

    from sottovoce_papers.pdsl_2025.public.weighing import GradientWeighting


def _answers_per_round(config: AgentConfig) -> int:
    answers = settings_of(config, CrossSettings).answers_per_round
    return 1 + len(config.transport.peers) if answers == "all" else answers


def _pdsl(config: AgentConfig, kernel: Kernel, public: Records | None) -> "RoundAlgorithm":
    from sottovoce_papers.pdsl_2025.public.cross import AnswerRotation
    from sottovoce_papers.pdsl_2025.public.pdsl import Pdsl

    momentum = settings_of(config, PdslSettings).momentum
    return Pdsl(AnswerRotation(_answers_per_round(config)), _weighing(config, kernel, public), momentum)


def _check_pdsl(config: AgentConfig) -> None:
    """Check that the numbers of neighbours and answers are small enough for exact Shapley values."""
    from sottovoce_papers.pdsl_2025.shapley import MAX_EXACT_PLAYERS

    learner = settings_of(config, PdslSettings)
    players = max(_answers_per_round(config), 1 + len(config.transport.peers))
    if learner.shapley == "exact" and players > MAX_EXACT_PLAYERS:
        raise ConfigError(
            f"learner.shapley: exact Shapley values support at most {MAX_EXACT_PLAYERS - 1} neighbours and "
            f"{MAX_EXACT_PLAYERS - 1} answers: choose monte-carlo or cosine, or a sparser graph"
        )


def _dp_cga(config: AgentConfig, kernel: Kernel, public: Records | None) -> "RoundAlgorithm":
    from sottovoce_papers.pdsl_2025.public.cross import AnswerRotation
    from sottovoce_papers.pdsl_2025.public.dp_cga import DpCga

    return DpCga(AnswerRotation(_answers_per_round(config)), settings_of(config, DpCgaSettings).momentum)


def _dp_dpsgd(config: AgentConfig, kernel: Kernel, public: Records | None) -> "RoundAlgorithm":
    from sottovoce_papers.pdsl_2025.public.dp_dpsgd import DpDpsgd

    return DpDpsgd()


def _dp_net_fleet(config: AgentConfig, kernel: Kernel, public: Records | None) -> "RoundAlgorithm":
    from sottovoce_papers.pdsl_2025.public.dp_net_fleet import DpNetFleet

    return DpNetFleet(settings_of(config, DpNetFleetSettings).local_steps)


def _muffliato(config: AgentConfig, kernel: Kernel, public: Records | None) -> "RoundAlgorithm":
    from sottovoce_papers.pdsl_2025 import chebyshev
    from sottovoce_papers.pdsl_2025.public.muffliato import Muffliato

    learner = settings_of(config, MuffliatoSettings)
    steps, gap = learner.gossip_steps, learner.spectral_gap
    accelerated = learner.chebyshev and gap is not None
    coefficients = (
        chebyshev.accelerated_coefficients(gap or 1.0, steps) if accelerated else chebyshev.plain_coefficients(steps)
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
    from sottovoce_papers.pdsl_2025.public.weighing import GradientWeighting
    from sottovoce_papers.pdsl_2025.shapley import AccuracyGame

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
