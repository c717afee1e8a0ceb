"""Build the parts of a learner in synchronous rounds from a configuration."""

from typing import TYPE_CHECKING

from sottovoce.algorithms.family import (
    NOISE_DISTANCE,
    Family,
    FirstStep,
    LearnerAndCodec,
    StoredRecords,
    build_kernel,
    noise_bounded_step,
    settings_of,
)
from sottovoce.algorithms.published import published_terms
from sottovoce.algorithms.rounds.rule import Rule
from sottovoce.algorithms.rounds.settings import RoundsSettings
from sottovoce.config import AgentConfig
from sottovoce.data import Records, parse
from sottovoce.errors import ConfigError, DataError
from sottovoce.learning.model_names import has_hidden_layers
from sottovoce.privacy.terms import Terms
from sottovoce.privacy.terms.gradients import GradientTerms

if TYPE_CHECKING:
    from sottovoce.algorithms.rounds.public import RoundsSchedule
    from sottovoce.learning.learners import Provenance

INITIAL_SEED = 0
"""Seed for the public initial model, which is the same on all devices in a fleet."""

_LINEAR_NOISE_DISTANCE = 200.0
"""Distance by which noise may move a linear model: longer than for push-sum, because a device averages its model with
its neighbours' in every round. docs/explanation/rounds.md#step-size compares it with a fixed step on four data sets."""
_MAX_STEP_FACTOR = 8.0  # maximum step size for most models, as a multiple of the default
_SHORT_STEP_MODELS = ("ridge", "pegasos")  # models that oscillate with longer steps


def build_parts(config: AgentConfig, rule: Rule, public: Records | None) -> Family:
    """Return the parts of a learner in rounds. If no public records are passed in, they are loaded with the learner."""
    kernel = build_kernel(config)

    def make_learner(owner: str, provenance: "Provenance", stored_records: StoredRecords) -> LearnerAndCodec:
        from sottovoce.algorithms.rounds.codec import RoundsCodec
        from sottovoce.algorithms.rounds.public import Rounds

        # a model in rounds is anonymous, and no records are published
        _check(config, rule, public)
        rounds = Rounds(
            build_schedule(config, kernel.size), rule.create(config, kernel, public), kernel.initial(INITIAL_SEED)
        )
        return rounds, RoundsCodec(rounds)

    return Family(
        kernel,
        kernel,
        _terms(config, rule.questions(config)),
        make_learner,
        check=lambda: _check(config, rule, public),
        first_step=lambda: _first_step(config, kernel.size),
    )


def build_schedule(config: AgentConfig, size: int) -> "RoundsSchedule":
    """Return the public schedule for a learner in rounds with `size` parameters."""
    from sottovoce.algorithms.rounds.public import RoundsSchedule

    learner = settings_of(config, RoundsSettings)
    return RoundsSchedule(
        learner=learner.name,
        size=size,
        period=learner.period,
        steps=learner.steps,
        step_size=_first_step(config, size).step_size,
        step_decay=learner.decay,
        batch=config.data.expected_records if learner.sampling == "full" else _batch(config)[0],
        deadline=learner.deadline,
    )


def _first_step(config: AgentConfig, size: int) -> FirstStep:
    """Return the first step, as configured or by the rule that limits how far noise moves the model."""
    learner = settings_of(config, RoundsSettings)
    steps, configured = learner.steps * learner.moves_per_round, learner.step_size is not None
    if configured or learner.fidelity == "paper" or config.unit != "record" or config.data.classes == 1:
        return FirstStep(steps, learner.rate, None)
    distance = NOISE_DISTANCE if has_hidden_layers(learner.chosen_model) else _LINEAR_NOISE_DISTANCE
    limits = distance, learner.rate * (1.0 if learner.chosen_model in _SHORT_STEP_MODELS else _MAX_STEP_FACTOR)
    (batch, total), sampled = _batch(config), learner.sampling == "poisson"
    rate = noise_bounded_step(
        config,
        size,
        steps=steps,
        clip=learner.clip,
        records=batch if sampled else config.data.expected_records,
        limits=limits,
        share=batch / total if sampled else 1.0,
    )
    return FirstStep(steps, rate, limits)


def _check(config: AgentConfig, rule: Rule, public: Records | None) -> None:
    """Check that a learner in rounds can run with this configuration.

    Raises:
        ConfigError: if the neighbours are not fixed, or the rule rejects the configuration.
        DataError: if there are no public records to score models on.
    """
    scores = config.learner.scores
    if scores is not None and public is None:
        _check_public(config.data.public, scores)
    if config.membership.sampling != "static":
        raise ConfigError(
            f"membership.sampling: learner {config.learner.name} needs the same neighbours in every round: set it to "
            '"static" and list each device under the other\'s transport.peers'
        )
    rule.check(config)


def _check_public(spec: str | None, rule: str) -> None:
    """Check that public records for scoring models are configured and exist, without reading them.

    Raises:
        ConfigError: if no public records are configured, or their specification is invalid.
        DataError: if the file does not exist.
    """
    if spec is None:
        raise ConfigError(
            f"data.public: learner.shapley = {rule} scores models on public labelled records: specify them, or set "
            "learner.shapley=cosine, which needs none"
        )
    try:
        path = parse(spec).path
    except DataError as error:
        raise ConfigError(f"data.public: {error}") from error
    if path is not None and not path.exists():
        raise DataError(
            f"data.public: {path}: no such file or directory; correct the path, or copy the public records there"
        )


def _batch(config: AgentConfig) -> tuple[int, int]:
    """Return the record sampling rate as a numerator and a denominator."""
    total = max(1, round(config.data.expected_records))
    return min(settings_of(config, RoundsSettings).batch, total), total


def _terms(config: AgentConfig, questions: int) -> Terms:
    learner, (batch, total) = settings_of(config, RoundsSettings), _batch(config)
    if learner.fidelity == "paper":
        return published_terms("rounds", config, questions, batch)
    return GradientTerms(
        learner=learner.name,
        releases=max(1, learner.steps * questions),
        clip=learner.clip,
        sampling=learner.sampling,
        batch=batch,
        of=total,
    )
